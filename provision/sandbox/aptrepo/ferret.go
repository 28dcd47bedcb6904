package aptrepo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// What is built: the last FerretDB that needs no PostgreSQL, with its checksum as in a go.sum.
const (
	module  = "github.com/FerretDB/FerretDB"
	version = "v1.24.0"
	sum     = "h1:7WJmezL48Bj9bYWnhT/bEJgX5gjT5s7LFdHTqkN25rA="
)

// goEnv keeps the settings of this module's own build away from the go command.
func goEnv() []string {
	return []string{"GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off", "CGO_ENABLED=0"}
}

// buildFerret returns the server's binary for this machine, below cache.
func buildFerret(ctx context.Context, cache string) (string, error) {
	binary := filepath.Join(cache, fmt.Sprintf("ferretdb-%s-%s-%s", version, runtime.GOOS, runtime.GOARCH))
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	work, err := os.MkdirTemp(cache, ".ferretdb-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	text, runErr := output(ctx, work, goEnv(), "go", "mod", "download", "-json", module+"@"+version)
	var got struct{ Dir, Sum, Error string }
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return "", errors.Join(runErr, err)
	}
	switch {
	case got.Error != "":
		return "", errors.New(got.Error)
	case runErr != nil:
		return "", runErr
	case got.Sum != sum:
		return "", fmt.Errorf("%s %s: checksum %s, want %s", module, version, got.Sum, sum)
	}
	// It is compiled as the main module, in a copy, with the file that its release
	// process adds and without which it refuses to start, and as the tests are compiled:
	// with this module's SQLite, where its source is.
	source := filepath.Join(work, "source")
	if err := os.CopyFS(source, os.DirFS(got.Dir)); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(source, "build", "version", "version.txt"), []byte(version+"\n"), 0o600); err != nil {
		return "", err
	}
	if sqlite, err := output(ctx, "", goEnv(), "go", "list", "-mod=readonly", "-m", "modernc.org/sqlite"); err == nil {
		if _, err := output(ctx, source, goEnv(), "go", "mod", "edit", "-require="+strings.Join(strings.Fields(sqlite), "@")); err != nil {
			return "", err
		}
	}
	built := filepath.Join(work, "ferretdb")
	if _, err := output(ctx, source, goEnv(), "go", "build", "-tags=ferretdb_no_postgresql", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-o", built, "./cmd/ferretdb"); err != nil {
		return "", err
	}
	return binary, os.Rename(built, binary)
}

// ferretUnit lets settings in /etc/default/ferretdb, or made with `systemctl edit`, take
// precedence, as FerretDB's own package does.
const ferretUnit = `[Unit]
Description=FerretDB, a server for MongoDB's protocol, on SQLite
After=network-online.target
Wants=network-online.target

[Service]
User=ferretdb
StateDirectory=ferretdb
StateDirectoryMode=0700
Environment=FERRETDB_HANDLER=sqlite FERRETDB_SQLITE_URL=file:/var/lib/ferretdb/ FERRETDB_STATE_DIR=/var/lib/ferretdb
Environment=FERRETDB_LISTEN_ADDR=127.0.0.1:27017 FERRETDB_DEBUG_ADDR=- FERRETDB_TELEMETRY=disable
EnvironmentFile=-/etc/default/ferretdb
ExecStart=/usr/bin/ferretdb
Restart=on-failure

[Install]
WantedBy=multi-user.target
`

// The scripts are what debhelper writes for a package with a service and a user.
const (
	postinst = `#!/bin/sh
set -e
if [ "$1" = configure ]; then
	getent passwd ferretdb >/dev/null ||
		useradd --system --user-group --home-dir /var/lib/ferretdb --shell /usr/sbin/nologin ferretdb
	deb-systemd-helper unmask ferretdb.service >/dev/null || true
	if deb-systemd-helper --quiet was-enabled ferretdb.service; then
		deb-systemd-helper enable ferretdb.service >/dev/null
	fi
	if [ -d /run/systemd/system ]; then
		systemctl --system daemon-reload >/dev/null
		deb-systemd-invoke restart ferretdb.service >/dev/null || true
	fi
fi
`
	prerm = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	deb-systemd-invoke stop ferretdb.service >/dev/null || true
fi
`
	postrm = `#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
	systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = purge ]; then
	deb-systemd-helper purge ferretdb.service >/dev/null || true
	rm -rf /var/lib/ferretdb
fi
`
)

func ferret(arch, binary string) deb {
	return deb{
		name: Package, version: strings.TrimPrefix(version, "v"), arch: arch,
		description: "server for MongoDB's protocol, on SQLite",
		files: []file{
			{path: "/usr/bin/ferretdb", mode: 0o755, source: binary},
			{path: "/lib/systemd/system/" + Unit, mode: 0o644, text: ferretUnit},
		},
		scripts: map[string]string{"postinst": postinst, "prerm": prerm, "postrm": postrm},
	}
}

// brokenFerret is a package of a later version whose service dies at once.
func brokenFerret(arch string) deb {
	d := ferret(arch, "")
	d.version += "+broken"
	d.description = "server that dies at once"
	d.files[0] = file{path: "/usr/bin/ferretdb", mode: 0o755, text: "#!/bin/sh\necho 'ferretdb: cannot open database' >&2\nexit 3\n"}
	return d
}
