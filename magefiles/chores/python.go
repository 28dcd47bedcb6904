package chores

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pythons returns the interpreters to try, in this order. The system has packages for its
// own interpreter only; another one may come before it in the path.
func pythons() []string { return []string{"python3", "/usr/bin/python3", "python"} }

// What an interpreter must import: for all tests, and to build the packages.
const (
	pythonAll   = "import scrapy, setuptools, wheel, ensurepip"
	pythonBuild = "import setuptools, wheel"
	pythonBasic = "import sys; sys.exit(sys.version_info < (3, 9))"
)

// python returns the first interpreter that runs code, "" if there is none.
func (r Repo) python(ctx context.Context, code string) string {
	for _, name := range pythons() {
		if exec.CommandContext(ctx, name, "-c", code).Run() == nil {
			return name
		}
	}
	return ""
}

// PythonBuild makes the wheel and the source archive of the Python client in dist.
func (r Repo) PythonBuild(ctx context.Context) error {
	_, err := r.PythonDist(ctx, nil, "dist")
	return err
}

// PythonDist is PythonBuild with other variables, and with the words of make_dist.py: a folder, and perhaps a version. It
// returns what made them: setuptools decides on bytes of a wheel.
func (r Repo) PythonDist(ctx context.Context, env []string, words ...string) (by string, err error) {
	interpreter := r.python(ctx, pythonBuild)
	if interpreter == "" {
		return "", fmt.Errorf("python: no interpreter has setuptools and wheel\nhint: on Debian: apt-get install python3-setuptools python3-wheel")
	}
	versions, err := exec.CommandContext(ctx, interpreter, "-c", "import setuptools, wheel, zlib; print('setuptools', setuptools.__version__, 'wheel', wheel.__version__, 'zlib', zlib.ZLIB_RUNTIME_VERSION)").Output()
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(versions)), r.run(ctx, env, interpreter, append([]string{filepath.Join("python", "make_dist.py")}, words...)...)
}

// PythonTest runs the tests of the Python client with a daemon built for them: all tests with
// an interpreter that has Scrapy, and those that need no packages also with the python3 of the
// path if that is another one. Each run has several processes that share its tests.
func (r Repo) PythonTest(ctx context.Context) error {
	full, basic := r.python(ctx, pythonAll), r.python(ctx, pythonBasic)
	if basic == "" {
		return r.without([]need{{why: "the tests of the Python client: no python3", packages: "python3"}})
	}
	folder, err := os.MkdirTemp("", "urifilter-python-tests-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	daemon := filepath.Join(folder, filepath.Base(filterProgram().binary()))
	if err := r.run(ctx, nil, "go", "build", "-ldflags=-w", "-o", daemon, "./daemon/urifilter"); err != nil {
		return err
	}
	env := []string{"URIFILTER_TEST_BINARY=" + daemon, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"}
	var runs []*exec.Cmd
	if full != "" {
		runs = append(runs, r.command(ctx, env, full, "-m", "tests"))
	} else if r.NoSkip {
		return fmt.Errorf("python: no interpreter has Scrapy, setuptools, wheel and ensurepip\nhint: on Debian: apt-get install %s", pythonPackages)
	}
	if full == "" || r.executable(ctx, full) != r.executable(ctx, basic) {
		runs = append(runs, r.command(ctx, env, basic, "-m", "tests", "--basic"))
	}
	for _, run := range runs {
		run.Dir = filepath.Join(r.Dir, "python")
	}
	return r.report("python", false, runs...)
}

// executable returns the file that an interpreter runs, behind all shims and links.
func (r Repo) executable(ctx context.Context, interpreter string) string {
	out, err := exec.CommandContext(ctx, interpreter, "-c", "import os, sys; print(os.path.realpath(sys.executable))").Output()
	if err != nil {
		return interpreter
	}
	return strings.TrimSpace(string(out))
}
