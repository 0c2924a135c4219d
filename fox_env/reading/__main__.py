"""Print the table of layouts in Markdown: ``python -m fox_env.reading > docs/reading.md``."""

import sys

from fox_env.reading.catalogue import as_markdown

sys.stdout.write(as_markdown())
