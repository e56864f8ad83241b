package main

import (
	"os"

	"github.com/spf13/cobra"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer the API on a database of yours",
		Long: `Serve answers the API until it gets SIGINT or SIGTERM. Then /readyz turns false, and after --drain-delay the
listener closes and the requests under way end. The database must be migrated (orderonce migrate up).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags())
			if err != nil {
				return err
			}
			log := newLogger(cmd, c)
			tells, err := startTelemetry(cmd.Context(), c, log)
			if err != nil {
				return err
			}
			defer closeTelemetry(cmd.Context(), tells, log)
			a, err := newApp(cmd.Context(), c, log, tells)
			if err != nil {
				return err
			}
			return a.run(cmd.Context(), a.server, nil, func(r ready) error {
				log.Info("ready", "base_url", r.BaseURL)
				r.PIDs = map[string]int{"server": os.Getpid()}
				return writeReady(c.ReadyFile, r)
			})
		},
	}
	addSettings(cmd)
	return cmd
}
