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
	yes *bool, // answer every question with yes
	at *string,
) error {
	return with(at, provision.Options{Yes: valueOr(yes, false)}, func(t *provision.Toolkit) error { return t.SSHSetup(ctx, valueOr(fingerprint, "")) })
}

// Check logs in to each host and shows its system, disks and clock, and how you become root on it.
//
//	go tool mage ssh:check
func (Ssh) Check(ctx context.Context, see *string) error {
	return with(see, provision.Options{}, func(t *provision.Toolkit) error { return t.SSHCheck(ctx) })
}
