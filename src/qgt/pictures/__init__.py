"""Pictures: figures and pages, pure functions of results that are already there.

Here lives everything about how results look. Nothing is measured or decoded here, and only the caller writes files.
matplotlib and jinja2 are imported when something is drawn.
"""
