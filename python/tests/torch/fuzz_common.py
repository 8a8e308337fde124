"""What programs that draw programs from seeds have in common: options, and what was counted."""
import argparse


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--programs", type=int, default=10**9)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--words", action="store_true")
    return parser


def report(counts, with_words):
    """Prints how many there were of each kind; a key that is a pair is words of one."""
    for key, n in counts.most_common() if with_words else ():
        if isinstance(key, tuple):
            print("%5d %s: %s" % (n, *key))
    print(", ".join("%d %s" % (n, word) for word, n in counts.items() if isinstance(word, str)))
