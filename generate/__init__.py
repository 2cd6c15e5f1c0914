"""Stage one: materialise traces, scores and features into a log, once."""

from toolkit.moved import moved_modules

moved_modules(
    {
        "generate.claims": "generate.simulation.claims",
        "generate.signals.kinds": "generate.signals.additions",
        "generate.simulate": "generate.simulation.grid",
        "generate.simulate_recovery": "generate.simulation.recovery",
        "generate.simulation_model": "generate.simulation.grid_model",
    }
)
