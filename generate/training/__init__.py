"""Training small Llama-architecture models from scratch on the generated tasks: recipes in, a model's folder out.

model_recipe  what is trained on what, in which phases (TOML)
llama         the model, its tokenizer of characters, its folder
texts         the texts of a phase: solutions, revisions, judgements
attempts      samples of the model at hand, which the later phases learn to revise and to judge
padded_texts  texts as padded arrays of like length
optimizer     Muon for the matrices, AdamW for the rest, one schedule
trainer       all phases, with a report of what was learnt
"""
