"""Monte Carlo tree search over sequences of moves.

Every node is a partition with its own cost, so stopping is possible anywhere. Values
are the best score found below a node, since the best is what counts, mixed with the
mean. Moves are tried in the order of what they gained elsewhere. Partitions that are
reached in several ways are one node.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from partir.search.goal import Outcome
from partir.search.methods.best import Best
from partir.search.methods.budget import Budget
from partir.search.methods.local import climb, improve, shaken
from partir.search.methods.registry import search_method
from partir.search.problem import Path, Problem
from partir.search.space.move import Move

_EXPLORE = 0.35
_DEPTH = 12
_WIDTH = 6  # moves tried at each step of a walk
_TURN = 60  # evaluations before the best is improved again
_IDLE = 20  # such turns in a row without anything new
_NOISE = 0.02  # on what moves have gained, so that seeds differ


Kind = tuple[str, str, int | None, int]  # what a move is, whatever the state


@dataclass
class Gains:
    """What each kind of move has gained on average, wherever it was tried."""

    total: dict[Kind, float] = field(default_factory=dict)
    count: dict[Kind, int] = field(default_factory=dict)

    def add(self, move: Move, gain: float) -> None:
        """One more trial."""
        self.total[move.key] = self.total.get(move.key, 0.0) + gain
        self.count[move.key] = self.count.get(move.key, 0) + 1

    def of(self, move: Move) -> float:
        """Mean gain; a little optimism for what was never tried."""
        count = self.count.get(move.key, 0)
        return (self.total.get(move.key, 0.0) + 0.02) / (count + 1)


@dataclass(slots=True, eq=False)
class _Node:
    path: Path
    outcome: Outcome
    untried: list[Move]
    children: list[tuple[Move, _Node]] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0
    best: float = 0.0
    done: bool = False  # nothing left to try below

    def value(self) -> float:
        mean = self.total / self.visits if self.visits else self.outcome.score
        return 0.75 * self.best + 0.25 * mean


def _has_early(moves: list[Move]) -> bool:
    return not all(move.late for move in moves)


Quality = Callable[[Outcome], float]


def _score(outcome: Outcome) -> float:
    return outcome.score


def _speed(outcome: Outcome) -> float:
    """As if memory did not matter."""
    return 1 / max(outcome.seconds, 1e-12)


@search_method("mcts")
def tree_search(problem: Problem, best: Best, budget: Budget, seed: int) -> None:
    """Monte Carlo tree search, with local search of the best in between."""
    _TreeSearch(problem, best, seed).run(budget)


class _TreeSearch:
    """One search; `run` may be stopped at any time, and `best` has the best so far."""

    def __init__(self, problem: Problem, best: Best, seed: int) -> None:
        """Nothing is tried yet."""
        self.problem, self.best = problem, best
        self.random = random.Random(seed)
        self.gains = Gains()
        self._nodes: dict[int, _Node] = {}

    def run(self, budget: Budget) -> None:
        """Search until the budget or the tree is exhausted."""
        root = self._node((), self.problem.outcome(self.problem.start))
        self._descend(root, budget, _score)
        self._descend(self._descend(root, budget, _speed), budget, _score)
        idle = 0
        while idle < _IDLE and not root.done:
            before = self.problem.evaluations
            improve(self.problem, self.best, budget, self.random)
            self._walks(root, budget)
            path = shaken(self.random.choice(self.best.leaders())[0], self.random)
            climb(self.problem, self.best, path, budget, self.random)
            if not budget.left(self.problem.evaluations):
                break
            idle = idle + 1 if self.problem.evaluations == before else 0

    def _walks(self, root: _Node, budget: Budget) -> None:
        """A turn of them."""
        before = self.problem.evaluations
        for _ in range(_TURN):
            used = self.problem.evaluations
            if root.done or used >= before + _TURN or not budget.left(used):
                return
            self._simulate(root, budget)

    def _descend(self, node: _Node, budget: Budget, quality: Quality) -> _Node:
        """Straight down by the best child; this also tells what moves are good for."""
        line = [node]
        while True:
            while _has_early(node.untried) and budget.left(self.problem.evaluations):
                self._expand(node)
            others = [c for _, c in node.children if c not in line]
            best = max(others, key=lambda c: quality(c.outcome), default=node)
            if quality(best.outcome) <= quality(node.outcome) * (1 + 1e-6):
                break
            node = best
            line.append(node)
        for one in line:
            one.visits += 1
            one.total += node.outcome.score
            one.best = max(one.best, node.outcome.score)
        return node

    def _node(self, path: Path, outcome: Outcome) -> _Node:
        state = self.problem.state(path)
        key = hash(self.problem.fingerprint(state))
        node = self._nodes.get(key)
        if node is None:
            untried = self.problem.candidates(path) if len(path) < _DEPTH else []
            self.random.shuffle(untried)
            node = _Node(path, outcome, untried, best=outcome.score)
            node.done = not untried
            self._nodes[key] = node
        return node

    def _simulate(self, root: _Node, budget: Budget) -> None:
        """Down the tree, one new node, a short greedy walk from there, and back."""
        node, line = root, [root]
        while not self._wants_new(node):
            child = self._select(node)
            if child is None:
                break
            node = child
            if node in line:  # reached in another way: don't go round
                break
            line.append(node)
        score = node.best
        child = self._expand(node)
        if child is not None:
            line.append(child)
            score = max(child.best, self._walk(child, line, budget))
        for one in line:
            one.visits += 1
            one.total += score
            one.best = max(one.best, score)
            one.done = not one.untried and all(c.done for _, c in one.children)

    def _wants_new(self, node: _Node) -> bool:
        """More children the more often a node is visited."""
        if not node.untried:
            return False
        return len(node.children) <= 2 * math.sqrt(node.visits + 1) + (
            4 if not node.path else 0
        )

    def _select(self, node: _Node) -> _Node | None:
        open_ = [(m, c) for m, c in node.children if not c.done]
        if not open_:
            return None

        def bound(pair: tuple[Move, _Node]) -> float:
            child = pair[1]
            spread = math.sqrt(math.log(node.visits + 1) / (child.visits + 1))
            return child.value() + _EXPLORE * self._scale * spread

        return max(open_, key=bound)[1]

    @property
    def _scale(self) -> float:
        """Scores differ little; exploration is in their measure."""
        return 0.2 * max(self.best.outcome.score, 0.05)

    def _expand(self, node: _Node) -> _Node | None:
        """The most promising move not tried yet that changes something."""
        while node.untried:
            index = self._promising(node.untried)
            move = node.untried.pop(index)
            child = self._try(node, move)
            if child is not None:
                return child
        return None

    def _promising(self, moves: list[Move]) -> int:
        noise = self.random.random
        scores = [self.gains.of(move) + _NOISE * noise() - move.late for move in moves]
        return max(range(len(moves)), key=scores.__getitem__)

    def _try(self, node: _Node, move: Move) -> _Node | None:
        state = self.problem.follow(node.path, move)
        if state is None:
            return None
        outcome = self.problem.outcome(state)
        self.gains.add(move, outcome.score - node.outcome.score)
        path = (*node.path, move)
        self.best.offer(path, outcome)
        child = self._node(path, outcome)
        if child is node:
            return None
        node.children.append((move, child))
        return child

    def _walk(self, node: _Node, line: list[_Node], budget: Budget) -> float:
        """Further down, each time by the best of a few moves, as long as they gain.

        Every other walk goes as if memory did not matter: what is fast comes first,
        what makes it fit later.
        """
        quality = self.random.choice((_score, _speed))
        best = node.outcome.score
        while True:
            for _ in range(_WIDTH):
                if budget.left(self.problem.evaluations):
                    self._expand(node)
            others = [c for _, c in node.children if c not in line]
            next_ = max(others, key=lambda c: quality(c.outcome), default=node)
            best = max([best, *(c.outcome.score for c in others)])
            if quality(next_.outcome) <= quality(node.outcome) * (1 + 1e-6):
                if quality is _score:
                    return best
                quality = _score  # fast; now make it fit
                continue
            node = next_
            line.append(node)
