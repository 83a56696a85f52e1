"""The lab: from somebody's samples to calls, for the command line and for a page.

Here is what both shells need; options, screens and routes belong to the shells, mathematics to the rooms below. Four
rooms in the order of the work, each of which may import those before it: `sheets` (samples, plates, counts), `plan`
(from a question to pools and worklists), `answers` (from counts to accounts and files) and `rounds` (what to test
next). `verdicts` has the one rule for verdicts and calls, `reported` the words of what pools report, and `wording` says
facts in sentences, for all of them.
"""
