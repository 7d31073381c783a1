"""muster for PyTorch: a few lines make a training script elastic.

    run = muster.torch.join(model, optimizer, scheduler)
    for epoch in run.epochs(3):
        for step in epoch.steps(dataset, global_batch=256, slices=8, seed=1):
            for x, y in step:                              # this worker's slices
                step.backward(loss_fn(model(x), y))
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()                               # .grad holds the committed mean
        scheduler.step()
"""
from ._run import Run, join
from ._train import Step
from .distributed import grown, process_group

__all__ = ['Run', 'Step', 'grown', 'join', 'process_group']
