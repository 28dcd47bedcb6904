//go:build mage

package main

import (
	"context"

	"github.com/cr-clawer/urifilter/provision"
)

// Deploy sets up or upgrades the whole fleet (Redis, MariaDB, archive, program, settings, service), one host at a time; each is checked with a real request, and rolled back if that fails.
//
// A second run changes nothing. Every host is connected to, checked and locked before any
// is changed; the filter hosts follow the canary in batches (fleet in the inventory).
//
//	go tool mage deploy                                # all of configs/hosts.yaml
//	go tool mage deploy -dryRun                        # what would change, and nothing else
//	go tool mage deploy -hosts=web1,web2 -v
//	go tool mage deploy -resume                        # after the cause of a failure was fixed
//	URIFILTER_HOSTS=root@10.0.0.5 go tool mage deploy  # without an inventory
//
// Exit codes: 0 done, 1 failed, 2 wrong settings or call, 3 hosts not reached or lost, 4 locked by
// another run, 130 interrupted.
func Deploy(
	ctx context.Context,
	binary *string, // push this program instead of building one; {arch} stands for amd64 or arm64, {program} for its name
	roll *string,
) error {
	return with(roll, provision.Options{Binary: valueOr(binary, "")}, func(t *provision.Toolkit) error { return t.Deploy(ctx) })
}

// Plan shows what deploy would change, including file differences, and changes nothing.
//
//	go tool mage plan
//	go tool mage plan -exitCode   # exits with 5 when something would change
func Plan(
	ctx context.Context,
	exitCode *bool, // exit with 5 when something would change
	binary *string, // push this program instead of building one; {arch} stands for amd64 or arm64, {program} for its name
	look *string,
) error {
	return with(look, provision.Options{ExitCode: valueOr(exitCode, false), Binary: valueOr(binary, "")}, func(t *provision.Toolkit) error { return t.Plan(ctx) })
}
