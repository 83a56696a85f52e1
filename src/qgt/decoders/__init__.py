"""Decoders: from counts to calls, each behind the contract of `decoders.contract`.

This room has one file for each decoder and one folder for each family that needs several, and `checker`, which checks
proofs and imports nothing of the search. A decoder gets a problem and counts, never x: its success is measured in
`trust` and `study`. Read `results` and `contract`, then a decoder of one page (`greedy`, `classical`, `exhaustive`),
then `registry`, which makes the decoders that files name; `certified` has an order of reading of its own.
"""

# The names of the decoders, as files and `qgt decode --decoder NAME` write them, and where each class is. The classes
# are strings, so that the help of the command lists the names without importing torch.

DECODER_CLASSES = {
    "amp": "amp.AMP",
    "belief": "belief.decoder.BeliefPropagation",
    "certified": "certified.decoder.Certified",
    "comp": "classical.COMP",
    "comp_lasso": "loads.baselines.CompLasso",
    "comp_nnls": "loads.baselines.CompNNLS",
    "comp_nnomp": "loads.baselines.CompNNOMP",
    "comp_sbl": "loads.baselines.CompSBL",
    "dd": "classical.DD",
    "exact": "highs.exact.ExactMAP",
    "exhaustive": "exhaustive.Exhaustive",
    "gamp": "gamp.GAMP",
    "linear_program": "highs.exact.LinearProgram",
    "load_gamp": "loads.baselines.LoadGAMP",
    "load_posterior": "loads.posterior.LoadPosterior",
    "maximum_neighborhood": "greedy.MaximumNeighborhood",
    "peeling": "peeling.Peeling",
    "pooled_amp": "pooled.PooledAMP",
    "pooled_iht": "pooled.PooledIHT",
    "pretrained": "neural.any_design.Pretrained",
    "prevalence": "greedy.Prevalence",
    "scomp": "classical.SCOMP",
}
