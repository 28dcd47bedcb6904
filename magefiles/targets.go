//go:build mage

// Targets of go tool mage. Each is one call; the work is done in package chores, and for servers in provision.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/magefile/mage/mg"

	"github.com/cr-clawer/urifilter/magefiles/chores"
)

// Build compiles the urifilter binary to dist/urifilter.
func Build(ctx context.Context) error { return repo().Build(ctx) }

// BuildLinux compiles the static binaries for servers to dist/urifilter-linux-amd64 and dist/urifilter-linux-arm64.
func BuildLinux(ctx context.Context) error { return repo().BuildLinux(ctx) }

// Run builds, starts the filter on 127.0.0.1:8000 with its data in .run, and prints two calls to try.
func Run(ctx context.Context) error { return repo().Run(ctx, os.Getenv("URIFILTER_LISTEN")) }

// Test runs everything that must be green before a change is merged; CI runs the same.
func Test(ctx context.Context) error { return repo().Test(ctx) }

// Check runs the linters, the race detector on all tests, the other platforms and the search for known vulnerabilities.
func Check(ctx context.Context) error { return repo().Check(ctx) }

// Bench measures speed and memory and prints the table of docs/performance.md; -args="..." goes to the program.
func Bench(ctx context.Context, args *string) error {
	if args == nil {
		return repo().Bench(ctx, nil)
	}
	return repo().Bench(ctx, strings.Fields(*args))
}

// Python has the targets of the Python client.
type Python mg.Namespace

// Build makes the wheel and the source archive of the Python client in dist.
func (Python) Build(ctx context.Context) error { return repo().PythonBuild(ctx) }

// Test runs the tests of the Python client and of Scrapy; `mage test` runs them too.
func (Python) Test(ctx context.Context) error { return repo().PythonTest(ctx) }

func repo() chores.Repo {
	return chores.Repo{Dir: ".", Out: os.Stdout, NoSkip: os.Getenv("URIFILTER_NO_SKIP") == "1"}
}
