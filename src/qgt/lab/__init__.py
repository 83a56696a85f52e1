"""The lab: from somebody's samples to calls, for the command line and for a page.

Here lives what both shells need: planning, sheets and worklists, reading counts, decoding them, and accounts in words.
Options, screens and routes belong to the shells; mathematics to the rooms below.
"""
