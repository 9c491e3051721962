#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""TracIn by the same exact factors, written with PyTorch: what the engine is measured against.

    peer_kge.py make FOLDER ENTITIES TRAIN TESTS    a model as the plain trainer saves it, and triples
    peer_kge.py run FOLDER THREADS                  prints seconds, processor seconds, and a sum over the best
    peer_kge.py loop FOLDER THREADS PAIRS           so many pairs the plain way, as TiePin has it: the gradient of each
                                                    parameter by autograd, kept, multiplied out; processor seconds a pair

Batches of 256 with PyTorch's own kernels throughout: convolution, its gradients, OpenBLAS. Products of pairs are the
matrix products that the engine has, rows that meet are masked ones.
"""
import sys
import time

import numpy
import torch
from torch import nn
from torch.nn import functional as F

RELATIONS, FILTERS, HEIGHT, WIDTH, BEST, BATCH = 18, 32, 10, 20, 100, 256


class Model(nn.Module):
    def __init__(self, entities):
        super().__init__()
        self.entity_embeddings = nn.Embedding(entities, HEIGHT * WIDTH)
        self.relation_embeddings = nn.Embedding(RELATIONS, HEIGHT * WIDTH)
        self.bn0, self.bn1, self.bn2 = nn.BatchNorm2d(1), nn.BatchNorm2d(FILTERS), nn.BatchNorm1d(HEIGHT * WIDTH)
        self.conv1 = nn.Conv2d(1, FILTERS, 3)
        self.fc = nn.Linear(FILTERS * (HEIGHT - 2) * (2 * WIDTH - 2), HEIGHT * WIDTH)
        for table in (self.entity_embeddings, self.relation_embeddings):
            nn.init.xavier_normal_(table.weight)


def make(folder, entities, n_train, n_tests):
    """Relations as skewed as WordNet's; entities at random, which is the worst case for whoever shares work."""
    torch.manual_seed(1)
    torch.save({"model_state_dict": Model(entities).state_dict(),
                "model_config": {"embedding_height": HEIGHT, "embedding_width": WIDTH}}, f"{folder}/model.pt")
    draw = numpy.random.default_rng(1)
    shares = 2.0 ** -numpy.arange(RELATIONS)
    for name, n in (("train", n_train), ("tests", n_tests)):
        columns = [draw.integers(0, entities, n), draw.choice(RELATIONS, n, p=shares / shares.sum()),
                   draw.integers(0, entities, n)]
        numpy.stack(columns, 1).astype("<u4").tofile(f"{folder}/{name}")


def factors(m, triples):
    """What a gradient is made of, for each triple: du, features, the small ones side by side, rows of h, r and t."""
    n = len(triples)
    head, tail = m.entity_embeddings.weight[triples[:, 0]], m.entity_embeddings.weight[triples[:, 2]]
    relation = m.relation_embeddings.weight[triples[:, 1]]
    image = torch.cat([head.view(n, HEIGHT, WIDTH), relation.view(n, HEIGHT, WIDTH)], 2).unsqueeze(1)
    scale0, scale1, scale2 = (bn.weight * (bn.running_var + bn.eps).rsqrt() for bn in (m.bn0, m.bn1, m.bn2))
    normed = m.bn0(image)
    maps = m.conv1(normed)
    features = F.relu(m.bn1(maps))
    flat = features.flatten(1)
    u = m.fc(flat)
    x = F.relu(m.bn2(u))
    slope = torch.sigmoid((x * tail).sum(1, keepdim=True)) - 1
    d_norm2 = slope * tail * (x > 0)
    bn2_weight = d_norm2 * (u - m.bn2.running_mean) * (m.bn2.running_var + m.bn2.eps).rsqrt()
    du = d_norm2 * scale2
    d_norm1 = (du @ m.fc.weight).view_as(features) * (features > 0)
    bn1_bias = d_norm1.sum((2, 3))
    inv1 = (m.bn1.running_var + m.bn1.eps).rsqrt()
    bn1_weight = ((d_norm1 * maps).sum((2, 3)) - m.bn1.running_mean * bn1_bias) * inv1
    d_maps = d_norm1 * scale1.view(1, -1, 1, 1)
    columns = F.unfold(normed, 3)
    conv_weight = torch.bmm(d_maps.flatten(2), columns.transpose(1, 2)).flatten(1)
    d_normed = F.conv_transpose2d(d_maps, m.conv1.weight)
    bn0_weight = (d_normed * (image - m.bn0.running_mean) * (m.bn0.running_var + m.bn0.eps).rsqrt()).sum((2, 3))
    d_image = (d_normed * scale0).squeeze(1)
    small = torch.cat([bn2_weight, d_norm2, du, bn1_weight, bn1_bias, bn1_bias * scale1, bn0_weight,
                       d_normed.sum((2, 3)), conv_weight], 1)
    return (du, flat, small, d_image[:, :, :WIDTH].reshape(n, -1), d_image[:, :, WIDTH:].reshape(n, -1), slope * x)


def influences(tests, test_triples, train, triples):
    du, flat, small, head, relation, tail = tests
    du2, flat2, small2, head2, relation2, tail2 = train
    out = (du @ du2.T) * (flat @ flat2.T) + small @ small2.T

    def where(column, a, other, b):
        same = test_triples[:, column:column + 1] == triples[:, other]
        if bool(same.any()):
            out.add_((a @ b.T) * same)

    where(1, relation, 1, relation2)
    where(0, head, 0, head2)
    where(2, tail, 2, tail2)
    where(0, head, 2, tail2)
    where(2, tail, 0, head2)
    return out


def opened(folder):
    state = torch.load(f"{folder}/model.pt")["model_state_dict"]
    model = Model(len(state["entity_embeddings.weight"]))
    model.load_state_dict(state)
    model.eval()
    train, test_triples = (torch.from_numpy(numpy.fromfile(f"{folder}/{name}", "<u4").astype("i8").reshape(-1, 3))
                           for name in ("train", "tests"))
    return model, train, test_triples


def run(folder, threads):
    torch.set_num_threads(threads)
    model, train, test_triples = opened(folder)
    k = min(BEST, len(train))
    begin, cpu = time.perf_counter(), time.process_time()
    with torch.no_grad():
        tests = factors(model, test_triples)
        best = torch.empty(len(test_triples), 0)
        for at in range(0, len(train), BATCH):
            part = train[at:at + BATCH]
            values = torch.cat([best, influences(tests, test_triples, factors(model, part), part)], 1)
            best = values.gather(1, values.abs().topk(min(k, values.shape[1]), 1).indices)
    print(f"seconds\t{time.perf_counter() - begin:.4f}\t{time.process_time() - cpu:.4f}\t{1e-3 * float(best.abs().sum()):.9g}")


def gradients(m, triple):
    m.zero_grad()
    head, relation = m.entity_embeddings(triple[0:1]), m.relation_embeddings(triple[1:2])
    image = torch.cat([head.view(1, 1, HEIGHT, WIDTH), relation.view(1, 1, HEIGHT, WIDTH)], 3)
    x = F.relu(m.bn2(m.fc(F.relu(m.bn1(m.conv1(m.bn0(image)))).flatten(1))))
    score = (x * m.entity_embeddings(triple[2:3])).sum(1)
    F.binary_cross_entropy_with_logits(score, torch.ones(1)).backward()
    return {name: parameter.grad.clone() for name, parameter in m.named_parameters()}


def loop(folder, threads, pairs):
    torch.set_num_threads(threads)
    model, train, test_triples = opened(folder)
    of_test = gradients(model, test_triples[0])
    gradients(model, train[0])
    begin, cpu, total = time.perf_counter(), time.process_time(), 0.0
    for triple in train[:pairs]:
        of_train = gradients(model, triple)
        total += sum((of_train[name] * of_test[name]).sum().item() for name in of_train)
    print(f"pair\t{(time.perf_counter() - begin) / pairs:.6f}\t{(time.process_time() - cpu) / pairs:.6f}\t{1e-3 * total:.9g}")


if __name__ == "__main__":
    if sys.argv[1] == "loop":
        loop(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    elif sys.argv[1] == "make":
        make(sys.argv[2], *map(int, sys.argv[3:6]))
    else:
        run(sys.argv[2], int(sys.argv[3]))
