"""A small next-token model over sentences of different lengths, padded into batches.

The language is made up: every sentence counts up or down from a random token, so there is something to learn.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD = 0
VOCABULARY = 64


class Sentences(Dataset):
    def __init__(self, length, longest, seed):
        generator = torch.Generator().manual_seed(seed)
        self.sentences = []
        for _ in range(length):
            words = int(torch.randint(4, longest + 1, (), generator=generator))
            first = int(torch.randint(0, VOCABULARY - 1, (), generator=generator))
            stride = int(torch.randint(0, 2, (), generator=generator)) * 2 - 1
            self.sentences.append(1 + (first + stride * torch.arange(words)) % (VOCABULARY - 1))

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, index):
        return self.sentences[index]


def collate(sentences):
    tokens = pad_sequence(sentences, batch_first=True, padding_value=PAD)
    return {"input": tokens[:, :-1], "target": tokens[:, 1:]}


class NextToken(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width, padding_idx=PAD)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        states, _ = self.rnn(self.embed(tokens))
        return self.head(states)


def main(args):
    torch.manual_seed(args.seed)
    device = torch.device(args.device)

    sentences = Sentences(args.steps * args.batch_size, args.longest, args.seed)
    loader = DataLoader(sentences, batch_size=args.batch_size, shuffle=True, collate_fn=collate)
    model = NextToken(args.width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    total_loss = 0.0
    correct = 0
    tokens = 0
    for step, batch in enumerate(loader, start=1):
        inputs = batch["input"].to(device)
        targets = batch["target"].to(device)

        logits = model(inputs)
        mask = targets != PAD
        loss = F.cross_entropy(logits[mask], targets[mask])

        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

        total_loss += loss.item()
        correct += ((logits.argmax(dim=-1) == targets) & mask).sum().item()
        tokens += mask.sum().item()
        if step % args.log_every == 0:
            print(f"step {step}: loss {total_loss / step:.4f}, accuracy {correct / tokens:.4f}")

    print(f"trained on {tokens} tokens")


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="optimizer steps")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--longest", type=int, default=48, help="tokens in the longest sentence")
    parser.add_argument("--width", type=int, default=128, help="width of the recurrent layer")
    parser.add_argument("--log-every", type=int, default=20, help="steps between two printed losses")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main(parse_args())
