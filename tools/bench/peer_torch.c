/* Every line that is sent is answered with one: "ok" and a number, or "no" and why. */
#include "peer_torch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char script[] =
    "import sys, time\n"
    "def say(word, rest):\n"
    "    print(word, str(rest).split('\\n')[0], flush=True)\n"
    "try:\n"
    "    import torch\n"
    "    import torch.nn.functional as F\n"
    "except Exception as why:\n"
    "    say('no', why)\n"
    "    sys.exit()\n"
    "torch.set_num_threads(int(sys.argv[1]))\n"
    "torch.manual_seed(1)\n"
    "say('ok', torch.__version__)\n"
    "x, leaves, forward, cotangent = [], [], None, None\n"
    "def make(dtype, high, constant, *shape):\n"
    "    shape = [int(n) for n in shape]\n"
    "    if dtype == 'i64':\n"
    "        return torch.randint(0, int(high), shape)\n"
    "    r = torch.rand(shape)\n"
    "    if dtype == 'c64':\n"
    "        return torch.complex(r, r)\n"
    "    r = r.bfloat16() if dtype == 'bf16' else r < 0.5 if dtype == 'bool' else r\n"
    "    if r.is_floating_point() and constant == '0':\n"
    "        leaves.append(r)\n"
    "    return r\n"
    "def repeat(n):\n"
    "    start = time.perf_counter()\n"
    "    for _ in range(n):\n"
    "        y = forward()\n"
    "        if cotangent is not None:\n"
    "            torch.autograd.grad(y, leaves, cotangent)\n"
    "    return time.perf_counter() - start\n"
    "for line in sys.stdin:\n"
    "    word, _, rest = line.strip().partition(' ')\n"
    "    try:\n"
    "        answer = 0\n"
    "        if word == 'clear':\n"
    "            x, leaves, forward, cotangent = [], [], None, None\n"
    "        elif word == 'input':\n"
    "            x.append(make(*rest.split()))\n"
    "        elif word == 'op':\n"
    "            forward, cotangent = eval('lambda: ' + rest), None\n"
    "            forward()\n"
    "        elif word == 'gradient':\n"
    "            for t in leaves:\n"
    "                t.requires_grad_()\n"
    "            cotangent = torch.ones_like(forward())\n"
    "        elif word == 'run':\n"
    "            answer = repeat(int(rest))\n"
    "        say('ok', answer)\n"
    "    except Exception as why:\n"
    "        say('no', why)\n";

struct peer_torch {
    pid_t child;
    FILE *to, *from;
};

/* The child's end: never returns. */
static void become_python(const char *python, int threads, const int to[2], const int from[2])
{
    char count[16];
    snprintf(count, sizeof count, "%d", threads);
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    for (int i = 0; i < 2; i++) {
        close(to[i]);
        close(from[i]);
    }
    execlp(python, python, "-c", script, count, (char *)NULL);
    printf("no %s could not be run\n", python);
    fflush(stdout);
    _exit(127);
}

/* Reads an answer's rest into `text`. @return 1 for "ok". */
static int read_answer(struct peer_torch *peer, char *text, size_t size)
{
    char line[512] = "";
    if (fgets(line, sizeof line, peer->from) == NULL) {
        snprintf(text, size, "no answer");
        return 0;
    }
    line[strcspn(line, "\n")] = '\0';
    snprintf(text, size, "%s", strlen(line) > 3 ? line + 3 : "");
    return strncmp(line, "ok ", 3) == 0;
}

static struct peer_torch *connect(pid_t child, const int to[2], const int from[2])
{
    struct peer_torch *peer = calloc(1, sizeof *peer);
    close(to[0]);
    close(from[1]);
    if (peer == NULL)
        return NULL;
    peer->child = child;
    peer->to = fdopen(to[1], "w");
    peer->from = fdopen(from[0], "r");
    return peer;
}

struct peer_torch *peer_torch_open(const char *python, int threads, char *text, size_t size)
{
    int to[2], from[2];
    signal(SIGPIPE, SIG_IGN); /* a Python that ends early is found out by its missing answer */
    fflush(stdout);
    snprintf(text, size, "no process");
    if (pipe(to) != 0 || pipe(from) != 0)
        return NULL;
    const pid_t child = fork();
    if (child < 0)
        return NULL;
    if (child == 0)
        become_python(python, threads, to, from);
    struct peer_torch *peer = connect(child, to, from);
    if (peer != NULL && (peer->to == NULL || peer->from == NULL || !read_answer(peer, text, size)))
        peer_torch_close(&peer);
    return peer;
}

void peer_torch_close(struct peer_torch **peer)
{
    struct peer_torch *p = *peer;
    if (p == NULL)
        return;
    if (p->to != NULL)
        fclose(p->to);
    if (p->from != NULL)
        fclose(p->from);
    waitpid(p->child, NULL, 0);
    free(p);
    *peer = NULL;
}

/* What is refused is told on stderr, with what was asked. */
static int ask(struct peer_torch *peer, const char *line, double *number)
{
    char text[512];
    fprintf(peer->to, "%s\n", line);
    fflush(peer->to);
    if (!read_answer(peer, text, sizeof text)) {
        fprintf(stderr, "torch: %s: %s\n", line, text);
        return 0;
    }
    *number = strtod(text, NULL);
    return 1;
}

int peer_torch_clear(struct peer_torch *peer)
{
    double ignored;
    return ask(peer, "clear", &ignored);
}

int peer_torch_input(struct peer_torch *peer, const char *dtype, int64_t high, int constant, int ndim,
                     const int64_t *shape)
{
    char line[256];
    double ignored;
    size_t n = (size_t)snprintf(line, sizeof line, "input %s %lld %d", dtype, (long long)high, constant);
    for (int d = 0; d < ndim && n < sizeof line; d++)
        n += (size_t)snprintf(line + n, sizeof line - n, " %lld", (long long)shape[d]);
    return n < sizeof line && ask(peer, line, &ignored);
}

int peer_torch_op(struct peer_torch *peer, const char *expression, int with_gradient)
{
    char line[512];
    double ignored;
    snprintf(line, sizeof line, "op %s", expression);
    return ask(peer, line, &ignored) && (!with_gradient || ask(peer, "gradient", &ignored));
}

/* Seconds of a processor that the child has used; 0 where that cannot be told. */
static double used_by(pid_t child)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(child, &clock) != 0 || clock_gettime(clock, &t) != 0)
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Threads of OpenMP that have nothing more to do wait for it on their cores first, for up to 0.1 s: what is measured
 * next would have to share these with them. */
static void wait_until_idle(const struct peer_torch *peer)
{
    const struct timespec pause = {0, 5 * 1000 * 1000};
    double before = 0, now = used_by(peer->child);
    for (int i = 0; i < 200 && now - before > 0.0005; i++) {
        nanosleep(&pause, NULL);
        before = now;
        now = used_by(peer->child);
    }
}

double peer_torch_run(struct peer_torch *peer, int64_t n)
{
    char line[64];
    double seconds;
    snprintf(line, sizeof line, "run %lld", (long long)n);
    const int is_done = ask(peer, line, &seconds);
    wait_until_idle(peer);
    return is_done ? seconds : -1;
}
