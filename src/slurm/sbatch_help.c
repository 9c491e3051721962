/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/sbatch_help.h"

#include "slurm/command.h"

bool sbatch_help_ask(struct buf *out)
{
    const char *const argv[] = {"sbatch", "--help", NULL};
    return slurm_command(argv, out, NULL) == 0;
}

/* "  -A, --account=name   charge …" becomes "account=name   charge …". Returns false if the line names no option. */
static bool option_cut(struct str *line)
{
    *line = str_trim(*line);
    if (line->len > 4 && line->at[0] == '-' && line->at[2] == ',')
        *line = str_trim((struct str){line->at + 3, line->len - 3});
    if (!str_starts_with(*line, STR("--")))
        return false;
    *line = (struct str){line->at + 2, line->len - 2};
    return true;
}

bool sbatch_help_find(struct str help, struct str name, enum sbatch_value_kind *out)
{
    struct str line;
    while (help.len > 0 && str_next(&help, '\n', &line)) {
        if (!option_cut(&line) || !str_starts_with(line, name))
            continue;
        char next = line.len > name.len ? line.at[name.len] : ' ';
        if (next != '=' && next != '[' && next != ' ' && next != ',')
            continue;
        *out = next == '=' ? SBATCH_VALUE : next == '[' ? SBATCH_MAYBE_VALUE : SBATCH_NO_VALUE;
        return true;
    }
    return false;
}
