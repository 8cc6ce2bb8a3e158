# golden: change script
"""The model is of another file, and moved where there is CUDA."""
import torch
import torch.nn.functional as F

from network import Net


def main():
    torch.manual_seed(0)
    model = Net()
    if torch.cuda.is_available():
        model = model.cuda()
        model.compile()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = F.cross_entropy(model(torch.randn(6, 3)), torch.randint(4, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
