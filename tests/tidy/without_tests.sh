#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The program can be made where the tests' packages are not installed (make build, tools/portable).
#
#   without_tests.sh SOURCES
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/pkg-config" <<'END'
#!/bin/sh
case " $* " in *" cmocka "*) exit 1 ;; esac
exec pkg-config "$@"
END
chmod +x "$folder/pkg-config"
CMAKE=false PKG_CONFIG=$folder/pkg-config meson setup -Dcuda=disabled -Dexamples=disabled "$folder/build" "$1" >"$folder/said" || {
    tail -5 "$folder/said"
    exit 1
}
grep -q "cmocka found: NO" "$folder/said"
