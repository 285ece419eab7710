"""Ablate each head of the shipped translator and measure the loss of the right translation."""

import torch

import regard
from regard import training
from regard.interventions import ablate

run = training.load("phrases")
source, target, _, _ = run.pair("The cat sat on the mat", "猫坐在垫子上")


def loss() -> float:
    with torch.no_grad():
        logits = run.model(source, target[:, :-1])
    return torch.nn.functional.cross_entropy(logits[0], target[0, 1:]).item()


whole = loss()
print(f"all heads: {whole:.4f}")
for layer in range(2):
    for head in range(4):
        with regard.intervene(run.model, {f"decoder.layers.{layer}.cross": ablate(heads=head)}):
            print(f"without cross-attention head {layer}.{head}: {loss() - whole:+.4f}")
