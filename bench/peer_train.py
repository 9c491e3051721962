#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Training ConvE with PyTorch, as the plain implementation does it: what `kge train` is measured against.

    peer_train.py TRAIN ENTITIES THREADS BATCH      an epoch over TRAIN; prints seconds, questions, and the mean loss

Scores against all entities, binary cross entropy with smoothed labels, Adam; a question is a head and a relation with all
their tails. Labels are put together once a batch, as ConvE's own program does.
"""
import sys
import time
from collections import defaultdict

import torch
from torch import nn
from torch.nn import functional as F

FILTERS, HEIGHT, WIDTH, SMOOTHING = 32, 10, 20, 0.1


class ConvE(nn.Module):
    def __init__(self, entities, relations):
        super().__init__()
        self.entities, self.relations = nn.Embedding(entities, HEIGHT * WIDTH), nn.Embedding(relations, HEIGHT * WIDTH)
        self.bn0, self.bn1, self.bn2 = nn.BatchNorm2d(1), nn.BatchNorm2d(FILTERS), nn.BatchNorm1d(HEIGHT * WIDTH)
        self.conv = nn.Conv2d(1, FILTERS, 3)
        self.fc = nn.Linear(FILTERS * (HEIGHT - 2) * (2 * WIDTH - 2), HEIGHT * WIDTH)
        self.input_drop, self.feature_drop, self.hidden_drop = nn.Dropout(0.2), nn.Dropout2d(0.2), nn.Dropout(0.3)
        for weight in (self.entities.weight, self.relations.weight, self.conv.weight, self.fc.weight):
            nn.init.xavier_normal_(weight)

    def forward(self, head, relation):
        n = len(head)
        image = torch.cat([self.entities(head).view(n, 1, HEIGHT, WIDTH), self.relations(relation).view(n, 1, HEIGHT, WIDTH)], 3)
        maps = self.feature_drop(F.relu(self.bn1(self.conv(self.bn0(self.input_drop(image))))))
        x = F.relu(self.bn2(self.hidden_drop(self.fc(maps.flatten(1)))))
        return x @ self.entities.weight.t()


def questions_of(path):
    entities, relations, tails = {}, {}, defaultdict(set)
    for line in open(path, encoding="utf-8"):
        head, relation, tail = line.rstrip("\n").split("\t")
        key = entities.setdefault(head, len(entities)), relations.setdefault(relation, len(relations))
        tails[key].add(entities.setdefault(tail, len(entities)))
    return list(tails.items()), len(relations)


def main(path, n_entities, threads, batch):
    n_entities, batch = int(n_entities), int(batch)
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    questions, n_relations = questions_of(path)
    model = ConvE(n_entities, n_relations)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    order = torch.randperm(len(questions)).tolist()
    begin, loss = time.perf_counter(), 0.0
    for at in range(0, len(questions), batch):
        picked = [questions[i] for i in order[at:at + batch]]
        head = torch.tensor([key[0] for key, _ in picked])
        relation = torch.tensor([key[1] for key, _ in picked])
        labels = torch.full((len(picked), n_entities), SMOOTHING / n_entities)
        rows = torch.tensor([i for i, (_, tails) in enumerate(picked) for _ in tails])
        labels[rows, torch.tensor([tail for _, tails in picked for tail in tails])] += 1 - SMOOTHING
        optimizer.zero_grad()
        value = F.binary_cross_entropy_with_logits(model(head, relation), labels)
        value.backward()
        optimizer.step()
        loss += value.item() * len(picked)
    print(f"seconds\t{time.perf_counter() - begin:.4f}\t{len(questions)}\t{loss / len(questions):.6f}")


main(*sys.argv[1:])
