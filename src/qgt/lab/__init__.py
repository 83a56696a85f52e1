"""The lab: from somebody's samples to calls, for the command line and for a page.

Here lives what both shells need: reading sheets, decoding them, and the account of each instance in words.
Options, screens and routes belong to the shells; mathematics to the rooms below.
"""
