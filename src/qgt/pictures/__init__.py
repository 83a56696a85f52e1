"""Pictures: figures and pages, pure functions of stored results.

This room decides how results look. It measures and decodes nothing, and only the caller writes files. matplotlib and
jinja2 are imported when something is drawn. Read `figures` (for matplotlib), `svg` and `pages` (for HTML), and
`printed_sheets` (for paper).
"""
