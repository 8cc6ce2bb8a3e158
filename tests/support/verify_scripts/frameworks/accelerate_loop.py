import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def training_function(num_epochs=8, batch_size=8):
    accelerator = Accelerator(gradient_accumulation_steps=2)
    set_seed(42)

    inputs = torch.randn(96, 10)
    targets = inputs @ torch.randn(10, 2) + 0.1 * torch.randn(96, 2)
    train_dataloader = DataLoader(TensorDataset(inputs, targets), shuffle=True, batch_size=batch_size)

    model = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    lr_scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=3e-3, epochs=num_epochs, steps_per_epoch=len(train_dataloader)
    )
    model, optimizer, train_dataloader, lr_scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, lr_scheduler
    )

    for epoch in range(num_epochs):
        model.train()
        total_loss = 0
        for source, target in train_dataloader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(source), target)
                total_loss += loss.detach().float()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
        accelerator.print(f'epoch {epoch}: {total_loss.item() / len(train_dataloader):.4f}')


if __name__ == '__main__':
    training_function()
