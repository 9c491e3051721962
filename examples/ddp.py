# SPDX-License-Identifier: Apache-2.0
"""A small data-parallel training with torch.distributed, on CPUs (gloo) or GPUs (NCCL). The same script for both:

    torchrun --nproc_per_node=4 ddp.py
    muster launch --nproc-per-node 4 ddp.py

Rank 0 prints the loss of each epoch, and its exact bits. A training that was ended, or whose ranks started again
(--max-restarts), goes on from the last epoch that was saved in the file of --checkpoint.
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def data(n=4096):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, 16, generator=generator)
    y = torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn(n, 1, generator=generator)
    return TensorDataset(x, y)


def save(path, epoch, model, optimizer):
    torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path + ".part")
    os.replace(path + ".part", path)  # at no time is there half a file


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--checkpoint")
    args = options.parse_args()
    has_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if has_gpu else torch.device("cpu")

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)
    model = DistributedDataParallel(model, device_ids=[local_rank] if has_gpu else None)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = 0
    if args.checkpoint and os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1

    dataset = data()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=64, sampler=sampler)
    for epoch in range(first, args.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros((), device=device)
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        loss = total.item() / len(loader) / dist.get_world_size()
        if rank == 0:
            print(f"epoch {epoch} loss {loss:.6f} {loss.hex()}")
            if args.checkpoint:
                save(args.checkpoint, epoch, model, optimizer)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
