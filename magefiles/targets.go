//go:build mage

// Targets of `go tool mage`. Each is one call; the work is done in package chores.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/cr-clawer/urifilter/magefiles/chores"
)

// Build compiles the urifilter binary to dist/urifilter.
func Build(ctx context.Context) error { return repo().Build(ctx) }

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

func repo() chores.Repo {
	return chores.Repo{Dir: ".", Out: os.Stdout, NoSkip: os.Getenv("URIFILTER_NO_SKIP") == "1"}
}
