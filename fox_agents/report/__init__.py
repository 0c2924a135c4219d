"""What evaluation results say: tables for the terminal, an image for TensorBoard, and one HTML page for a reader."""

from fox_agents.report.image import equity_image
from fox_agents.report.page import write_report
from fox_agents.report.terminal import comparison_table, folds_table, orders_table
from fox_agents.report.verdict import Verdict, judge

__all__ = [
    "Verdict",
    "comparison_table",
    "equity_image",
    "folds_table",
    "judge",
    "orders_table",
    "write_report",
]
