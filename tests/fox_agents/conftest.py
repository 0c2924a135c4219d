"""Settings of the learner's tests."""

import os

# Spinning threads starve each other on a busy machine; read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
