//go:build mage

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/magefile/mage/mg"

	"github.com/cr-clawer/urifilter/provision/sandbox"
)

// Sandbox runs throw-away Debian hosts on this machine, for rehearsals.
type Sandbox mg.Namespace

const sandboxDir = ".sandbox"

// Up creates throw-away Debian hosts on this machine, and an inventory that the other targets use if no other exists; -n=3 -releases=bookworm,trixie.
func (Sandbox) Up(ctx context.Context, n *int, releases *string) error {
	specs, err := sandbox.Rehearsal(valueOr(n, 1), valueOr(releases, ""))
	if err != nil {
		return err
	}
	s, err := sandbox.Up(ctx, sandbox.Options{Dir: sandboxDir, Hosts: specs, Repository: true, Keep: true, Out: os.Stdout})
	if err != nil {
		return err
	}
	return s.Describe(os.Stdout)
}

// Down removes the hosts of sandbox:up and every trace of them.
func (Sandbox) Down(ctx context.Context) error {
	if err := sandbox.Down(ctx, sandboxDir); err != nil {
		return err
	}
	fmt.Println("the sandbox is gone")
	return nil
}

// Status lists the hosts of sandbox:up.
func (Sandbox) Status() error {
	s, err := sandbox.Open(sandboxDir)
	if err != nil {
		return err
	}
	return s.Status(os.Stdout)
}

// Ssh logs in to a host of sandbox:up; -host=sandbox2 if there are several, -user=deploy instead of root.
func (Sandbox) Ssh(ctx context.Context, host, user *string) error {
	s, err := sandbox.Open(sandboxDir)
	if err != nil {
		return err
	}
	args, err := s.SSHArguments(valueOr(host, ""), valueOr(user, ""))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "ssh", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
