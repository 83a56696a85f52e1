"""The names of the decoders, as files and `qgt decode --decoder NAME` write them, and where each class is.

The classes are strings, so that the help of the command lists the names without importing torch.
"""

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
    "linear_program": "highs.linear_program.LinearProgram",
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
