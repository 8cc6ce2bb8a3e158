#!/usr/bin/env python
# coding: utf-8

# # Fitting a curve
# 
# First the imports.

# In[1]:


get_ipython().run_line_magic('matplotlib', 'inline')
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


# In[2]:


get_ipython().system('echo no packages are installed here')
torch.manual_seed(0)
x = torch.linspace(-3, 3, 128).unsqueeze(1)
y = torch.sin(2 * x) + 0.1 * torch.randn_like(x)
train_dl = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)


# In[3]:


model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
model


# In[4]:


opt = torch.optim.Adam(model.parameters(), lr=1e-2)
losses = []
def fit(epochs):
    for epoch in range(epochs):
        for xb, yb in train_dl:
            loss = nn.functional.mse_loss(model(xb), yb)
            loss.backward()
            opt.step()
            opt.zero_grad()
            losses.append(loss.item())


# In[5]:


get_ipython().run_cell_magic('time', '', 'fit(10)\nlast = losses[-1]\n')


# In[6]:


get_ipython().run_line_magic('timeit', '-n 100 model(x)')
last
