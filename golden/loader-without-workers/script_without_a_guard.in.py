# golden: change script
"""The loop stands at module level: workers that are spawned would run it again, so a guard is put around it."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Steps(Dataset):
    def __len__(self):
        return 240

    def __getitem__(self, index):
        x = torch.arange(5.0) * index
        return x.cos(), x.sum() / 40


torch.manual_seed(3)
train_loader = DataLoader(Steps(), batch_size=3, shuffle=True)

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(5, 1).to(device)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


# train step
def train(data):
    inputs, targets = data
    loss = criterion(model(inputs.to(device)).squeeze(1), targets.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


for epoch in range(2):
    for step, batch in enumerate(train_loader):
        loss = train(batch)
        print(epoch, step, repr(loss.item()))
