"""Print the feature table in Markdown: ``python -m fox_env.features > docs/features.md``."""

import sys

from fox_env.features.table import as_markdown

sys.stdout.write(as_markdown())
