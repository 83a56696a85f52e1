"""Pictures: figures and pages, pure functions of results that are already there.

Here is everything about how results look: nothing is measured or decoded here, and only the caller writes files.
matplotlib and jinja2 are imported when something is drawn. Read `figures` (for matplotlib), `svg` and `pages` (for
HTML), and `printed_sheets` (for paper).
"""
