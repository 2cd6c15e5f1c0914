"""Training small Llama and LFM2 models from scratch on the generated tasks: recipes in, a model's folder out.

model_recipe  what is trained on what, in which phases (TOML)
llama         the model, its tokenizer of characters, its folder
texts         the texts of a phase: solutions, revisions, judgements, as padded arrays
trainer       all phases, their optimizers and schedule, with a report of what was learnt
"""
