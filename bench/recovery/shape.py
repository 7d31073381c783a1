"""What is trained: the same for muster's workers and torchrun's."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    """Bytes and times of a training; see paced.c."""
    gradient_bytes: int = 10_000_000
    state_bytes: int = 10_000_000
    slices: int = 8
    slice_us: int = 5000

    def slices_each(self, world):
        """That the busiest of so many workers has in a step."""
        return -(-self.slices // world)

    def arguments(self):
        return [str(self.gradient_bytes), str(self.state_bytes), str(self.slices),
                str(self.slice_us)]


SAMPLES, BATCH = 1000, 64  # As paced.c has them.
