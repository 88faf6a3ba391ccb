"""How the site is built: `make docs`, or sphinx-build -W -b html docs docs/_build/html."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from decobandit import __version__  # noqa: E402

project = "decobandit"
author = "decobandit contributors"
copyright = "decobandit contributors"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",  # a local copy: formulas need no other host, at build or reading
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "generated_reference",
    "dark_figures",
]
MADE = ("gallery", "notebooks")  # folders of pages made from scripts
exclude_patterns = [
    "_build",
    *(f"{folder}/**/*.{end}" for folder in MADE for end in ("ipynb", "md5")),
]
default_role = "code"  # docstrings put names between single backticks
smartquotes_action = "qe"  # quotes and ellipses; two dashes are those of an option

# -- pages in Markdown ----------------------------------------------------------------------------

myst_enable_extensions = ["amsmath", "dollarmath", "colon_fence"]
myst_dmath_double_inline = True
myst_heading_anchors = 3
# the local copy is MathJax 3; without this line MyST writes options for MathJax 4
mathjax3_config = {"options": {"processHtmlClass": "tex2jax_process|mathjax_process|math"}}
suppress_warnings = ["myst.mathjax", "config.cache"]
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

# -- docstrings -----------------------------------------------------------------------------------

napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes as a list: properties have entries of their own
napoleon_use_rtype = False  # what is returned stands beside what it means
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"npt.ArrayLike": "ArrayLike", "Floats": "Floats", "Report": "Report"}
toc_object_entries_show_parents = "hide"
python_maximum_signature_line_length = 88

# -- examples -------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples"), str(HERE.parent / "notebooks")],
    "gallery_dirs": list(MADE),
    "within_subsection_order": "gallery_order.OrderOfUse",
    "capture_repr": ("_repr_html_",),  # tables; what else an expression is worth is printed
    "filename_pattern": r"/plot_",
    "image_scrapers": ("figure_scraper.figures",),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
    "abort_on_example_error": False,
    "only_warn_on_example_error": True,
}

# -- looks ----------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "decobandit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"index": [], "start/*": []}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
}
