"""An explanation as one self-contained HTML page: `explain.html`."""

from npu_assay.conformance.explain.page.render import page

__all__ = ["page"]
