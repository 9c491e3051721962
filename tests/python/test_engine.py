#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The engine's ConvE against PyTorch: checkpoints of every form are read, scores, gradients and influences are those
that autograd gives, training goes where torch's Adam goes, and what is no model is refused with a sentence.

    test_engine.py KGE_DRIVER MUSTER
"""
import collections, json, os, random, struct, subprocess, sys, tempfile, types

try:
    import numpy
    import torch
    from torch import nn
except ImportError as why:
    print(f"1..0 # SKIP {why}")
    sys.exit(0)

DRIVER, MUSTER = (os.path.abspath(path) for path in sys.argv[1:3])
checks = []


def check(function):
    checks.append(function)
    return function


class Plain(nn.Module):
    """Along the width, no entity bias, plain names: what the plain implementation trains."""

    def __init__(self, entities, relations, height, width, filters):
        super().__init__()
        self.height, self.width, dim = height, width, height * width
        self.entity_embeddings = nn.Embedding(entities, dim)
        self.relation_embeddings = nn.Embedding(relations, dim)
        self.bn0, self.bn1, self.bn2 = nn.BatchNorm2d(1), nn.BatchNorm2d(filters), nn.BatchNorm1d(dim)
        self.conv1 = nn.Conv2d(1, filters, 3)
        self.fc = nn.Linear(filters * (height - 2) * (2 * width - 2), dim)

    def scores(self, triples):
        images = [table(triples[:, i]).view(-1, 1, self.height, self.width)
                  for i, table in ((0, self.entity_embeddings), (1, self.relation_embeddings))]
        x = torch.relu(self.bn1(self.conv1(self.bn0(torch.cat(images, 3)))))
        x = torch.relu(self.bn2(self.fc(x.flatten(1))))
        return x @ self.entity_embeddings.weight.T


class Interaction(nn.Module):
    def __init__(self, height, width, filters):
        super().__init__()
        dim = height * width
        self.embedding_height, self.embedding_width, self.input_channels = height, width, 1
        self.hr2d = nn.Sequential(nn.BatchNorm2d(1), nn.Dropout(0.2), nn.Conv2d(1, filters, 3), nn.BatchNorm2d(filters),
                                  nn.ReLU(), nn.Dropout2d(0.2))
        self.hr1d = nn.Sequential(nn.Linear(filters * (2 * height - 2) * (width - 2), dim), nn.Dropout(0.3),
                                  nn.BatchNorm1d(dim), nn.ReLU())


class Embedding(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self._embeddings = nn.Embedding(n, dim)


class ConvE(nn.Module):
    """Along the height, with an entity bias, PyKEEN's names."""

    def __init__(self, entities, relations, height, width, filters):
        super().__init__()
        self.entity_representations = nn.ModuleList([Embedding(entities, height * width), Embedding(entities, 1)])
        self.relation_representations = nn.ModuleList([Embedding(relations, height * width)])
        self.interaction = Interaction(height, width, filters)

    def scores(self, triples):
        part, table = self.interaction, self.entity_representations[0]._embeddings
        shape = (-1, 1, part.embedding_height, part.embedding_width)
        images = [table(triples[:, 0]).view(shape), self.relation_representations[0]._embeddings(triples[:, 1]).view(shape)]
        x = part.hr1d(part.hr2d(torch.cat(images, 2)).flatten(1))
        return x @ table.weight.T + self.entity_representations[1]._embeddings.weight.T


# Pickled whole, its classes must be found where PyKEEN has them; the reader never imports them.
for cls, module in ((Interaction, "pykeen.nn.modules"), (Embedding, "pykeen.nn.representation"),
                    (ConvE, "pykeen.models.unimodal.conv_e")):
    pieces = module.split(".")
    for i in range(len(pieces)):
        sys.modules.setdefault(".".join(pieces[:i + 1]), types.ModuleType(".".join(pieces[:i + 1])))
    cls.__module__ = module
    setattr(sys.modules[module], cls.__name__, cls)

PLAIN_NAMES = {"interaction.hr2d.0": "bn0", "interaction.hr2d.2": "conv1", "interaction.hr2d.3": "bn1",
               "interaction.hr1d.0": "fc", "interaction.hr1d.2": "bn2",
               "entity_representations.0._embeddings": "entity_embeddings",
               "entity_representations.1._embeddings": "entity_bias",
               "relation_representations.0._embeddings": "relation_embeddings"}


def plain_name(name):
    module, _, leaf = name.rpartition(".")
    return f"{PLAIN_NAMES.get(module, module)}.{leaf}"


def model_of(cls, *sizes, seed=1):
    torch.manual_seed(seed)
    model = cls(*sizes)
    for name, buffer in model.named_buffers():
        if buffer.dtype.is_floating_point:
            buffer.copy_(torch.rand(buffer.shape) * (1 if "var" in name else 0.2) + (0.5 if "var" in name else 0))
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.copy_(torch.rand(parameter.shape) * 1.5 - 0.3)
    return model.eval()


def triples_of(model, n, seed=2):
    torch.manual_seed(seed)
    entities, relations = (20, 5)
    triples = torch.stack([torch.randint(0, bound, (n,)) for bound in (entities, relations, entities)], 1)
    triples[::4, 2] = triples[::4, 0]
    return triples


def drive(path, triples, *options):
    with open("triples", "wb") as file:
        file.write(triples.numpy().astype("<u4").tobytes())
    os.makedirs("out", exist_ok=True)
    return subprocess.run([DRIVER, path, "triples", "out", *options], capture_output=True, text=True, timeout=60)


def facts(path, triples, *options):
    ended = drive(path, triples, *options)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def refused(status, words, path, *options):
    ended = drive(path, triples_of(None, 3), *options)
    assert ended.returncode == status and ended.stdout == "", ended
    assert all(word in ended.stderr for word in words), ended.stderr


def found(name, shape):
    return torch.from_numpy(numpy.fromfile(f"out/{name}", dtype="<f8").reshape(shape))


def near(a, b, what):
    error = float((a - b).norm() / b.norm())
    assert error <= 1e-5, f"{what}: {error:g}"


def losses(model, triples, is_all):
    scores = model.scores(triples)
    if not is_all:
        return nn.functional.softplus(-scores.gather(1, triples[:, 2:])[:, 0])
    labels = torch.full_like(scores, 0.1 / scores.shape[1]).scatter_(1, triples[:, 2:], 0.9 + 0.1 / scores.shape[1])
    return nn.functional.binary_cross_entropy_with_logits(scores, labels, reduction="none").mean(1)


def agrees(model, path, *options, n=12):
    """Scores, gradients and influences of the engine's reading of `path` are the model's."""
    model = model.double()
    triples = triples_of(model, n)
    is_all, is_training = "all" in options, "train" in options
    facts(path, triples, *options)
    model.train(is_training)
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout2d)):
            module.eval()
    if is_training:
        near(found("loss", 1), losses(model, triples, is_all).mean().reshape(1), "loss")
    else:
        scores = model.scores(triples)
        near(found("scores", -1), (scores if is_all else scores.gather(1, triples[:, 2:])).flatten(), "scores")
    model.zero_grad()
    losses(model, triples, is_all).sum().backward()
    for name, parameter in model.named_parameters():
        if is_training and plain_name(name) in ("bn0.bias", "conv1.bias", "fc.bias"):
            continue  # the next norm's mean takes them away: both sides hold rounding errors only
        near(found(plain_name(name), parameter.shape), parameter.grad, name)
    if is_training:
        return
    flat = []
    for i in range(n):
        model.zero_grad()
        losses(model, triples[i:i + 1], is_all).sum().backward()
        flat.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    flat = torch.stack(flat)
    near(found("influences", (n, n)), flat @ flat.T, "influences")


def as_source(model, **more):
    config = {"num_entities": 20, "num_relations": 5, "embedding_dim": model.height * model.width,
              "embedding_height": model.height, "embedding_width": model.width}
    return {"epoch": 3, "model_state_dict": model.state_dict(), "model_config": config,
            "optimizer_state_dict": torch.optim.Adam(model.parameters()).state_dict(), **more}


@check
def the_plain_trainer_s_checkpoint_is_read_and_computes_as_torch_does():
    model = model_of(Plain, 20, 5, 10, 20, 32)
    torch.save(as_source(model), "plain.pt")
    said = facts("plain.pt", triples_of(model, 3))
    assert said["layout"] == "width" and (said["height"], said["width"], said["filters"]) == (10, 20, 32), said
    for options in ((), ("all",), ("all", "train")):
        agrees(model_of(Plain, 20, 5, 10, 20, 32), "plain.pt", *options)


@check
def pykeen_s_state_dict_is_read_by_its_names():
    for height, width, filters in ((10, 20, 32), (8, 4, 16)):
        model = model_of(ConvE, 20, 5, height, width, filters)
        torch.save(model.state_dict(), "pykeen.pt")
        for options in ((), ("all",), ("all", "train")):
            agrees(model_of(ConvE, 20, 5, height, width, filters), "pykeen.pt", f"height={height}", *options)


def without_norms(model):
    """As PyKEEN's apply_batch_normalization=False builds it: its layers move up."""
    def rest(layers):
        return nn.Sequential(*(layer for layer in layers if not isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d))))

    if isinstance(model, ConvE):
        model.interaction.hr2d, model.interaction.hr1d = rest(model.interaction.hr2d), rest(model.interaction.hr1d)
    else:
        model.bn0 = model.bn1 = model.bn2 = nn.Identity()
    return model


@check
def models_without_batch_norm_are_computed_without():
    try:
        PLAIN_NAMES["interaction.hr2d.1"] = "conv1"
        for cls, sizes, options in ((ConvE, (8, 4, 16), ["height=8"]), (Plain, (10, 20, 4), ["height=10"])):
            for is_all in ((), ("all",)):
                model = without_norms(model_of(cls, 20, 5, *sizes))
                torch.save({"model_state_dict": model.state_dict()}, "bare.pt")
                agrees(model, "bare.pt", *options, *is_all, "save=bare.safetensors")
                agrees(model, "bare.safetensors", *is_all)
        torch.save(without_norms(model_of(ConvE, 20, 5, 8, 4, 16)), "bare.pkl")
        agrees(without_norms(model_of(ConvE, 20, 5, 8, 4, 16)), "bare.pkl")
    finally:
        del PLAIN_NAMES["interaction.hr2d.1"]
    state = model_of(ConvE, 20, 5, 8, 4, 16).state_dict()
    for name in [name for name in state if name.startswith("interaction.hr1d.2.")]:
        del state[name]
    torch.save(state, "half.pt")
    refused(65, ["interaction.hr1d.2.weight is not in it"], "half.pt")
    plain = model_of(Plain, 20, 5, 10, 20, 4).state_dict()
    torch.save({name: tensor for name, tensor in plain.items() if not name.startswith("bn1")}, "half.pt")
    refused(65, ["bn1.weight is not in it"], "half.pt")


@check
def a_whole_pickled_model_is_read_as_data():
    model = model_of(ConvE, 20, 5, 8, 4, 32)
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.eps = 1e-3
    torch.save(model, "trained_model.pkl")
    said = facts("trained_model.pkl", triples_of(model, 3))
    assert (said["layout"], said["height"], said["entity_bias"], said["bn_eps"]) == ("height", 8, True, 1e-3), said
    agrees(model, "trained_model.pkl")


@check
def an_ambiguous_shape_is_asked_for_and_can_be_said():
    model = model_of(ConvE, 20, 5, 8, 4, 32)
    torch.save({"state_dict": model.state_dict(), "version": 1}, "open.pt")
    refused(2, ["8 x 4 along height", "2 x 16 along height", "height"], "open.pt")
    assert facts("open.pt", triples_of(model, 3), "height=8")["width"] == 4
    refused(65, ["hr1d.0.weight has"], "open.pt", "height=16")
    torch.save({"model_state_dict": model.state_dict(), "config": {"embedding_height": 8, "embedding_width": 4}}, "said.pt")
    assert facts("said.pt", triples_of(model, 3))["height"] == 8


@check
def older_files_other_types_views_and_wrappers_are_read():
    model = model_of(Plain, 20, 5, 10, 20, 8)
    state = model.state_dict()
    forms = {
        "legacy": lambda path: torch.save(as_source(model), path, _use_new_zipfile_serialization=False),
        "double": lambda path: torch.save(as_source(model.double()), path),
        "wrapped": lambda path: torch.save(collections.OrderedDict(
            ("module._orig_mod." + name, tensor) for name, tensor in state.items()), path),
        "view": lambda path: torch.save(dict(state, **{"fc.weight": state["fc.weight"].T.contiguous().T}), path),
    }
    for name, save in forms.items():
        save(f"{name}.pt")
        agrees(model_of(Plain, 20, 5, 10, 20, 8), f"{name}.pt", "height=10")
        model.float()


@check
def half_precision_is_widened():
    for dtype in (torch.float16, torch.bfloat16):
        model = model_of(Plain, 20, 5, 10, 20, 4).to(dtype)
        torch.save(model.state_dict(), "half.pt")
        agrees(model.double(), "half.pt", "height=10")


@check
def what_is_written_as_safetensors_reads_back_the_same():
    model = model_of(ConvE, 20, 5, 8, 4, 16)
    torch.save(model.state_dict(), "model.pt")
    triples = triples_of(model, 7)
    before = facts("model.pt", triples, "height=8", "save=model.safetensors")
    scores = found("scores", -1)
    after = facts("model.safetensors", triples)
    assert before == after and bool((scores == found("scores", -1)).all())
    with open("model.safetensors", "rb") as file:
        data = file.read()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    assert header["__metadata__"]["conve.layout"] == "height" and header["fc.weight"]["dtype"] == "F32", header
    begin, end = header["fc.weight"]["data_offsets"]
    at = 8 + int.from_bytes(data[:8], "little")
    weight = numpy.frombuffer(data[at + begin:at + end], dtype="<f4")
    assert (weight == model.interaction.hr1d[0].weight.detach().numpy().flatten()).all()
    try:
        from safetensors.torch import load_file
    except ImportError:
        return
    assert torch.equal(load_file("model.safetensors")["fc.weight"], model.interaction.hr1d[0].weight.detach())


@check
def what_is_no_model_is_refused_with_a_reason():
    model = model_of(Plain, 20, 5, 10, 20, 4)
    state = model.state_dict()

    def saved(**changes):
        torch.save({name: tensor for name, tensor in dict(state, **changes).items() if tensor is not None}, "bad.pt")
        return "bad.pt"

    nan = state["conv1.weight"].clone()
    nan[1, 0, 2, 1] = float("nan")
    infinite = state["entity_embeddings.weight"].clone()
    infinite[3, 4] = float("inf")
    cases = [
        (65, ["conv1.weight[16] is nan"], {"conv1.weight": nan}),
        (65, ["entity_embeddings.weight[604] is inf"], {"entity_embeddings.weight": infinite}),
        (65, ["bn1.running_var is not in it"], {"bn1.running_var": None}),
        (65, ["neither entity_embeddings.weight nor"], {"entity_embeddings.weight": None}),
        (65, ["relation_embeddings.weight is 5 x 199, expected 5 x 200"], {"relation_embeddings.weight": torch.rand(5, 199)}),
        (65, ["fc.weight has 1217 inputs"], {"fc.weight": torch.rand(200, 1217)}),
        (65, ["fc.bias is 201, expected 200"], {"fc.bias": torch.rand(201)}),
        (65, ["3 input channels"], {"conv1.weight": torch.rand(4, 3, 3, 3)}),
        (65, ["are no floats"], {"fc.bias": torch.ones(200, dtype=torch.int64)}),
        (65, ["more than the file has room for"], {"entity_embeddings.weight": torch.rand(1).expand(1 << 40, 200)}),
        (65, ["below 0"], {"bn2.running_var": -torch.ones(200)}),
    ]
    for status, words, changes in cases:
        refused(status, words, saved(**changes), "height=10")
    refused(2, ["two models"], saved(**{"best." + name: tensor for name, tensor in state.items()}))
    refused(2, ["open absent.pt"], "absent.pt")
    with open("text", "w") as file:
        file.write("head\trelation\ttail\n")
    refused(65, ["neither safetensors nor"], "text")
    with open(saved(), "rb") as file:
        whole = file.read()
    with open("cut.pt", "wb") as file:
        file.write(whole[:len(whole) // 2])
    refused(65, ["cut.pt"], "cut.pt")


def safetensors(path):
    """Tensors by name, and what the metadata says."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    return {name: torch.frombuffer(bytearray(data[slice(*entry["data_offsets"])]), dtype=torch.float32).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__"}, header["__metadata__"]


def questions_of(path, is_grouped):
    """Heads, relations and labels, by the numbers that the names were first seen in."""
    numbers, relations, tails = {}, {}, collections.defaultdict(list)
    for i, line in enumerate(open(path, encoding="utf-8")):
        head, relation, tail = line.split()
        key = numbers.setdefault(head, len(numbers)), relations.setdefault(relation, len(relations)), None if is_grouped else i
        tails[key].append(numbers.setdefault(tail, len(numbers)))
    labels = torch.full((len(tails), len(numbers)), 0.1 / len(numbers), dtype=torch.float64)
    for i, answers in enumerate(tails.values()):
        labels[i, answers] += 0.9
    return torch.tensor([[head, relation, 0] for head, relation, _ in tails]), labels, len(numbers), len(relations)


def goes_on_as_torch(is_grouped, cls, *layout):
    """From the state after two epochs of one batch to the model after five."""
    draw = random.Random(3)
    with open("graph.txt", "w", encoding="utf-8") as file:
        file.writelines(sorted({f"e{draw.randrange(20)} r{draw.randrange(4)} e{draw.randrange(20)}\n".replace(" ", "\t") for _ in range(90)}))
    triples, labels, n_entities, n_relations = questions_of("graph.txt", is_grouped)
    command = [MUSTER, "kge", "train", "--train", "graph.txt", "-o", "trained", "--embedding-dim", "32", "--embedding-height", "8",
               "--output-channels", "6", "--input-dropout", "0", "--feature-dropout", "0", "--hidden-dropout", "0", "--lr-decay", "0.9",
               "--learning-rate", "0.01", "--checkpoint-every", "1", "--batch-size", "1000", *layout, *([] if is_grouped else ["--one-positive"])]
    for n_epochs, force in ((2, ["--force"]), (5, [])):
        if n_epochs == 5:
            state, metadata = safetensors("trained/training_state.safetensors")
        done = subprocess.run([*command, "--epochs", str(n_epochs), *force], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    model = model_of(cls, n_entities, n_relations, 8, 4, 6).double().train()
    names = {plain_name(name): tensor for name, tensor in model.state_dict().items()}
    for name, tensor in names.items():
        if name in state:
            tensor.copy_(state[name])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01 * 0.9 ** 2)
    for name, parameter in model.named_parameters():
        optimizer.state[parameter] = {"step": torch.tensor(float(metadata["train.n_updates"])) if torch.__version__ >= "1.12" else 2,
                                      "exp_avg": state["adam.exp_avg." + plain_name(name)].double(),
                                      "exp_avg_sq": state["adam.exp_avg_sq." + plain_name(name)].double()}
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.Dropout2d)):
            module.eval()
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(model.scores(triples), labels).backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.9
    found, _ = safetensors("trained/final_model.safetensors")
    for name, tensor in names.items():
        if name in ("bn0.bias", "conv1.bias", "fc.bias") or name not in found:
            continue  # the next norm takes a bias away: its gradient is rounding errors, which Adam makes steps of
        if name.endswith("running_mean"):
            continue  # and this holds that bias
        off = (found[name] - tensor).abs().max().item()
        assert off <= 2e-4 * max(1, tensor.abs().max().item()), (name, off)


@check
def training_goes_where_torch_s_adam_goes():
    goes_on_as_torch(True, Plain)
    goes_on_as_torch(False, Plain)
    goes_on_as_torch(True, ConvE, "--layout", "height", "--entity-bias")


def main():
    print(f"1..{len(checks)}")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for i, function in enumerate(checks):
            try:
                function()
                print(f"ok {i + 1} - {function.__name__.replace('_', ' ')}", flush=True)
            except (AssertionError, subprocess.TimeoutExpired, RuntimeError) as why:
                failed += 1
                print(f"not ok {i + 1} - {function.__name__.replace('_', ' ')}\n# {str(why)[:2000]}", flush=True)
        os.chdir("/")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
