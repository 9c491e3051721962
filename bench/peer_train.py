#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training ConvE with PyTorch, as the plain implementation does it: what `kge train` is measured against.

    peer_train.py time TRAIN ENTITIES THREADS BATCH [DEVICE]   an epoch over TRAIN; seconds, questions, the mean loss
    peer_train.py fit FOLDER OUT SEED EPOCHS THREADS RATE   FOLDER's train.txt and dictionaries; a checkpoint in OUT

Scores against all entities, binary cross entropy with smoothed labels, Adam; a question is a head and a relation with all
their tails. Labels are put together once a batch, as ConvE's own program does.
"""
import sys
import time
from collections import defaultdict

import torch
from torch import nn
from torch.nn import functional as F

FILTERS, HEIGHT, WIDTH, SMOOTHING, BATCH = 32, 10, 20, 0.1, 256


class ConvE(nn.Module):
    def __init__(self, entities, relations):
        super().__init__()
        self.entity_embeddings, self.relation_embeddings = nn.Embedding(entities, HEIGHT * WIDTH), nn.Embedding(relations, HEIGHT * WIDTH)
        self.bn0, self.bn1, self.bn2 = nn.BatchNorm2d(1), nn.BatchNorm2d(FILTERS), nn.BatchNorm1d(HEIGHT * WIDTH)
        self.conv1 = nn.Conv2d(1, FILTERS, 3)
        self.fc = nn.Linear(FILTERS * (HEIGHT - 2) * (2 * WIDTH - 2), HEIGHT * WIDTH)
        self.input_drop, self.feature_drop, self.hidden_drop = nn.Dropout(0.2), nn.Dropout2d(0.2), nn.Dropout(0.3)
        for weight in (self.entity_embeddings.weight, self.relation_embeddings.weight, self.conv1.weight, self.fc.weight):
            nn.init.xavier_normal_(weight)

    def forward(self, head, relation):
        n = len(head)
        image = torch.cat([self.entity_embeddings(head).view(n, 1, HEIGHT, WIDTH), self.relation_embeddings(relation).view(n, 1, HEIGHT, WIDTH)], 3)
        maps = self.feature_drop(F.relu(self.bn1(self.conv1(self.bn0(self.input_drop(image))))))
        x = F.relu(self.bn2(self.hidden_drop(self.fc(maps.flatten(1)))))
        return x @ self.entity_embeddings.weight.t()


def triples_of(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def questions_of(triples, entities, relations):
    """By head and relation, with all tails; what has no number gets the next one."""
    tails = defaultdict(set)
    for head, relation, tail in triples:
        key = entities.setdefault(head, len(entities)), relations.setdefault(relation, len(relations))
        tails[key].add(entities.setdefault(tail, len(entities)))
    return list(tails.items())


def epoch(model, optimizer, questions, n_entities, batch, device="cpu"):
    """The mean loss."""
    order, loss = torch.randperm(len(questions)).tolist(), 0.0
    for at in range(0, len(questions), batch):
        picked = [questions[i] for i in order[at:at + batch]]
        head = torch.tensor([key[0] for key, _ in picked], device=device)
        relation = torch.tensor([key[1] for key, _ in picked], device=device)
        labels = torch.full((len(picked), n_entities), SMOOTHING / n_entities, device=device)
        rows = torch.tensor([i for i, (_, tails) in enumerate(picked) for _ in tails], device=device)
        labels[rows, torch.tensor([tail for _, tails in picked for tail in tails], device=device)] += 1 - SMOOTHING
        optimizer.zero_grad()
        value = F.binary_cross_entropy_with_logits(model(head, relation), labels)
        value.backward()
        optimizer.step()
        loss += value.item() * len(picked)
    return loss / len(questions)


def timed(path, n_entities, threads, batch, device="cpu"):
    """On a device float32 is not shortened (to TF32), and the batches of a first epoch are not counted."""
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    relations = {}
    questions = questions_of(triples_of(path), {}, relations)
    model = ConvE(int(n_entities), len(relations)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch.backends.cudnn.allow_tf32 = False
    if device != "cpu":
        epoch(model, optimizer, questions, int(n_entities), int(batch), device)
    begin = time.perf_counter()
    loss = epoch(model, optimizer, questions, int(n_entities), int(batch), device)
    print(f"seconds\t{time.perf_counter() - begin:.4f}\t{len(questions)}\t{loss:.6f}")


def fit(folder, out, seed, epochs, threads, rate):
    torch.set_num_threads(int(threads))
    torch.manual_seed(int(seed))
    entities, relations = ({name: int(index) for name, index in triples_of(f"{folder}/{file}")} for file in ("node_dict.txt", "rel_dict.txt"))
    questions = questions_of(triples_of(f"{folder}/train.txt"), entities, relations)
    model = ConvE(len(entities), len(relations))
    optimizer = torch.optim.Adam(model.parameters(), lr=float(rate))
    for _ in range(int(epochs)):
        loss = epoch(model, optimizer, questions, len(entities), BATCH)
    torch.save({"model_state_dict": model.state_dict(), "model_config": {"embedding_height": HEIGHT, "embedding_width": WIDTH}}, out)
    print(f"loss\t{loss:.6f}")


if __name__ == "__main__":
    {"time": timed, "fit": fit}[sys.argv[1]](*sys.argv[2:])
