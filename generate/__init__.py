"""Stage one: materialise traces, scores and features into a log, once."""

from toolkit.moved import moved_modules

moved_modules(
    {
        "generate.claims": "generate.simulation.claims",
        "generate.simulate": "generate.simulation.grid",
        "generate.simulate_recovery": "generate.simulation.recovery",
    }
)
