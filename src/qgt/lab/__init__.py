"""The lab: from samples to calls, for the command line and for the page.

This room has the code that the command and the page share. Options, screens and routes belong to these two, mathematics
to the rooms below. It has four parts in the order of the work, each of which may import those before it: `sheets`
(samples, plates, counts), `plan` (from a question to pools and worklists), `answers` (from counts to accounts and
files) and `rounds` (what to test next). All of them use `verdicts`, the one rule for verdicts and calls, `reported`,
the words for what pools report, and `wording`, which puts facts into sentences.
"""
