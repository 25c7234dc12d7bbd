"""A run as one self-contained HTML page: `report.html`."""

from npu_assay.conformance.report.page.render import html

__all__ = ["html"]
