//go:build mage

package main

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cr-clawer/urifilter/provision"
)

// Ssh prepares and checks SSH access to the hosts.
type Ssh mg.Namespace

// Setup makes a key if you have none, records the hosts' keys after showing their fingerprints, and puts your key on the hosts.
//
//	go tool mage ssh:setup
//	go tool mage ssh:setup -hosts=web1 -fingerprint=SHA256:...
func (Ssh) Setup(
	ctx context.Context,
	fingerprint *string, // trust these fingerprints without asking, comma-separated
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	yes *bool, // answer every question with yes
) error {
	return with(flags{hosts: hosts, inventory: inventory, yes: yes}, func(t *provision.Toolkit) error { return t.SSHSetup(ctx, valueOr(fingerprint, "")) })
}

// Check logs in to each host and shows its system, disks and clock, and how you become root on it.
//
//	go tool mage ssh:check
func (Ssh) Check(
	ctx context.Context,
	hosts *string, // only these hosts: names, patterns, role:filter, comma-separated
	inventory *string, // the inventory in place of configs/hosts.yaml
	v *bool, // show what commands wrote
) error {
	return with(flags{hosts: hosts, inventory: inventory, verbose: v}, func(t *provision.Toolkit) error { return t.SSHCheck(ctx) })
}
