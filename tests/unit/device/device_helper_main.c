/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests run in muster's place: the helper verb and nothing else.
 */
#include "device/driver_probe.h"

#include <string.h>

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "device-helper") == 0)
        return device_helper_main(argc - 2, argv + 2);
    return 2;
}
