# golden: change script numerics=rounding
"""A trainer: its optimizer is made by the model, the loss is kept for whoever asks."""
import torch
import torch.nn.functional as F
from torch import nn

from graphed_step import GraphedStep

torch.manual_seed(0)
loader = [(torch.randn(size, 4), torch.randint(3, (size,))) for size in (8, 8, 8, 8, 8, 5)]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))

    def configure_optimizers(self, lr):
        decayed = [each for each in self.parameters() if each.dim() > 1]
        others = [each for each in self.parameters() if each.dim() < 2]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=True, capturable=True)
        return optimizer

    def forward(self, x, targets):
        logits = self.layers(x)
        return logits, F.cross_entropy(logits, targets)


class Trainer:
    def __init__(self, model):
        self.optimizer = None
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device)

    def run(self):
        model = self.model
        self.optimizer = model.configure_optimizers(0.01)
        model.train()
        iter_num = 0

        def train_step(x, y):
            # forward the model
            logits, self.loss = model(x, y)

            # backprop and update the parameters
            model.zero_grad(set_to_none=True)
            self.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            self.optimizer.step()
            return self.loss

        train_step = GraphedStep(train_step, [self.optimizer])

        while iter_num < 12:
            batch = loader[iter_num % len(loader)]
            batch = [t.to(self.device) for t in batch]
            x, y = batch

            self.loss = train_step(x, y).clone()

            iter_num += 1
            print(iter_num, round(self.loss.item(), 3))


if __name__ == "__main__":
    Trainer(Net()).run()
