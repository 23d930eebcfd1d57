"""Operations by chance: done or not, one of several, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from feedline import _arguments
from feedline.image_operations.base import Chain, probability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from feedline.pictures import Images


class Combining(Chain):
    """Operations made of operations.

    They take functions that add operations to the images they are given. A function is called
    once, when the pipeline is made; nothing of it is left in the loop.
    """

    def random_apply(self, function: Callable[[Images], Images], p: float = 0.5) -> Images:
        """Do some operations to some images.

        Parameters
        ----------
        function
            Adds the operations to the images it is given: all of them are done, or none.
        p
            The probability that they are done to an image.

        Returns
        -------
        Images
            Of the same size where the operations keep it, else of sizes that differ.

        Raises
        ------
        TypeError
            If the function returns something else than it got with operations added.
        ValueError
            If it adds none, or what works on more than pixels, such as `normalize`.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> photos = feedline.arrays(np.zeros((10, 32, 32, 3), np.uint8))
        >>> some = photos.random_apply(lambda x: x.flip().gaussian_blur(3), p=0.8)
        >>> print(some)
        10 samples
          arrays(1)
          random_apply(random_horizontal_flip(p=0.5) + gaussian_blur(3, sigma=(0.1, 2)), p=0.8)
        delivers (uint8 [3, 32, 32],)
        """
        chance = probability("p", p)
        return self._add("random_apply", calls=self._added("random_apply", function), p=chance)

    def random_choice(
        self, *functions: Callable[[Images], Images], p: Sequence[float] | None = None
    ) -> Images:
        """Do one of several operations to each image.

        Parameters
        ----------
        *functions
            Each adds operations to the images it is given; one that returns them as they are
            stands for doing nothing.
        p
            How often each is chosen, in proportion: numbers of at least 0, which need not add up to
            1. Equally often by default.

        Returns
        -------
        Images
            Of one size where all make that size, else of sizes that differ.

        Raises
        ------
        TypeError
            If a function returns something else than it got with operations added.
        ValueError
            If there is no function, `p` has not one number for each, or what is added works on more
            than pixels, such as `normalize`.

        Examples
        --------
        >>> import numpy as np
        >>> import feedline
        >>> photos = feedline.arrays(np.zeros((10, 32, 32, 3), np.uint8))
        >>> one = photos.random_choice(
        ...     lambda x: x.random_solarize(128, p=1.0),
        ...     lambda x: x.gaussian_blur(5),
        ...     lambda x: x,
        ...     p=[0.1, 0.1, 0.8],
        ... )
        >>> one[0][0].shape
        (3, 32, 32)
        """
        choices = self._alternatives("random_choice", functions)
        weights = None
        if p is not None:
            weights = [float(_arguments.real("p", weight)) for weight in p]
        return self._add("random_choice", choices=choices, p=weights)

    def random_order(self, *functions: Callable[[Images], Images]) -> Images:
        """Do several operations to each image, in random order.

        Parameters
        ----------
        *functions
            Each adds operations to the images it is given; those of one function stay together, in
            their order.

        Returns
        -------
        Images
            Of the same size where the operations keep it, else of sizes that differ.

        Raises
        ------
        TypeError
            If a function returns something else than it got with operations added.
        ValueError
            If there is no function, or what is added works on more than pixels.
        """
        return self._add("random_order", choices=self._alternatives("random_order", functions))

    def _alternatives(
        self, name: str, functions: Sequence[Callable[[Images], Images]]
    ) -> list[object]:
        if not functions:
            msg = f"{name} needs at least one function, e.g. {name}(lambda x: x.flip())"
            raise ValueError(msg)
        return [self._added(name, function) for function in functions]
