"""A mean teacher: the student is trained on few labels and on agreement with a moving average of its weights."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(21)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

DECAY = 0.9
EPOCHS = 3
CONSISTENCY = 2.0


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 64)
        self.bn1 = nn.BatchNorm1d(64)
        self.fc2 = nn.Linear(64, 64)
        self.bn2 = nn.BatchNorm1d(64)
        self.head = nn.Linear(64, 5)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        x = F.relu(self.bn1(self.fc1(x)))
        x = self.drop(x)
        x = F.relu(self.bn2(self.fc2(x)))
        return self.head(x)


@torch.no_grad()
def update_teacher(student, teacher, decay):
    for p, q in zip(student.parameters(), teacher.parameters()):
        q.mul_(decay).add_(p, alpha=1 - decay)
    for b, c in zip(student.buffers(), teacher.buffers()):
        c.copy_(b)


def blobs(n):
    centers = torch.randn(5, 16) * 1.5
    labels = torch.randint(0, 5, (n,))
    points = centers[labels] + torch.randn(n, 16)
    known = torch.rand(n) < 0.4
    return TensorDataset(points, torch.where(known, labels, torch.tensor(-1)))


loader = DataLoader(blobs(256), batch_size=24, shuffle=True)
student = Encoder().to(device)
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)
teacher.eval()
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3)

steps = 0
for epoch in range(EPOCHS):
    student.train()
    ramp = min(1.0, (epoch + 1) / 2)
    meter = 0.0
    for points, labels in loader:
        points, labels = points.to(device), labels.to(device)
        noisy = points + 0.1 * torch.randn_like(points)
        logits = student(noisy)
        supervised = F.cross_entropy(logits, labels, ignore_index=-1)
        with torch.no_grad():
            target = torch.softmax(teacher(points), dim=1)
        agreement = F.mse_loss(torch.softmax(logits, dim=1), target)
        loss = supervised + CONSISTENCY * ramp * agreement
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_teacher(student, teacher, min(DECAY, (steps + 1) / (steps + 2)))
        steps += 1
        meter += loss.item()
    print(f"epoch {epoch} loss {meter / len(loader):.4f}")
    torch.save({"student": student.state_dict(), "teacher": teacher.state_dict(), "epoch": epoch}, "teacher.pt")
