"""Figures of policies show every policy and the bound."""

from qgt.pictures.figures import needed_tests_figure, policy_frontier_figure, prevalence_figure, rounds_figure


def texts(figure):
    (ax,) = figure.axes
    return [text.get_text() for text in (ax.get_legend().get_texts() if ax.get_legend() else ax.texts)]


def test_prevalence_has_a_line_for_each_policy_and_the_bound():
    figure = prevalence_figure({"follow-up": [(0.01, 8.0, 0.1), (0.1, 25.0, 0.2)]}, [(0.01, 5.0), (0.1, 14.0)], 100)
    assert sorted(texts(figure)) == ["entropy bound", "follow-up"]
    (ax,) = figure.axes
    figure.draw_without_rendering()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "10"]
    assert ax.get_xlabel() == "prevalence, %" and ax.get_yscale() == "log"


def test_rounds_has_a_point_for_each_policy_and_says_how_often_it_is_right():
    found = {f"policy_{i}": (1.0 + i, 20.0 + i, 0.1, 0.999) for i in range(9)}
    figure = rounds_figure(found, 11.4, 100)
    said = texts(figure)
    assert "policy 8 (99.9 % right)" in said and "entropy bound" in said and len(said) == 10


def test_a_frontier_has_a_line_for_each_first_round_in_the_order_of_tests():
    figure = policy_frontier_figure({18: [(23.0, 0.001), (21.0, 0.04)], 20: [(22.0, 0.0)]}, 100)
    assert texts(figure) == ["first round of 18", "first round of 20"]
    (ax,) = figure.axes
    assert ax.lines[0].get_xdata().tolist() == [21.0, 23.0] and ax.lines[0].get_ydata().tolist() == [4.0, 0.1]


def test_tests_needed_have_our_schemes_first_and_thick_beside_the_others_and_the_bound():
    ours, others = {"rounds": [(0.01, 10.0, 0.1), (0.1, 38.0, 0.5)]}, {"Dorfman": [(0.01, 19.0, 0.3)]}
    figure = needed_tests_figure(ours, others, [(0.01, 3.8), (0.1, 10.0)], 96)
    (ax,) = figure.axes
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "each sample alone",
        "rounds",
        "Dorfman",
        "entropy bound, one stage",
    ]
    widths = {one.get_label(): one.lines[0].get_linewidth() for one in ax.containers}
    assert widths["rounds"] > widths["Dorfman"]
    figure.draw_without_rendering()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "10"]
    assert ax.get_ylabel() == "tests for 96 samples" and ax.get_yscale() == "log"
