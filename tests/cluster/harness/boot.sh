#!/bin/sh
# boot.sh ROOT OLD NAME ROLE CLUSTER: enter a host's prepared root, start its daemons, stay as process 1.
# OLD, below ROOT, is where the machine's own root goes; only a `bare` host keeps it, for later binds.
# When /run/booted exists the daemons have been started; what went wrong is on stderr.
set -eu
root=$1 old=$2 name=$3 role=$4 cluster=$5

try() { # try SECONDS COMMAND...: until it works
    left=$(($1 * 10))
    shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || { echo "$name: gave up on: $*" >&2; return 1; }
        sleep 0.1
    done
}

key_service() {
    mkdir -p /run/munge /var/log/munge /var/lib/munge
    chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge
    chmod 700 /etc/munge
    chmod 400 /etc/munge/munge.key
    setpriv --reuid munge --regid munge --clear-groups munged
}

database() {
    data=/var/spool/slurm/mysql
    # Debian's MariaDB 11.8 keeps its socket in the first, newer ones in the second
    mkdir -p /run/mysqld /run/mariadbd
    chown mysql: /run/mysqld /run/mariadbd
    if [ ! -d $data ]; then
        # an unfinished copy must not pass for a database
        rm -rf $data.new
        for prepared in /var/lib/mariadb /var/lib/mysql; do
            if [ -d $prepared/mysql ]; then cp -a $prepared $data.new && break; fi
        done
        [ -d $data.new ] || mariadb-install-db --user=mysql --datadir=$data.new >/dev/null
        mv $data.new $data
    fi
    # what is written survives a killed host (not a crash of the machine), and nothing waits for a disk
    setsid mariadbd --user=mysql --datadir=$data --skip-networking --innodb-flush-log-at-trx-commit=2 \
        --loose-innodb-flush-method=nosync --innodb-lock-wait-timeout=900 >/var/log/slurm/mariadbd.log 2>&1 </dev/null &
    try 60 mariadb -e 'select 1'
    mariadb -e "create database if not exists slurm_acct; create user if not exists slurm@localhost;
        grant all on slurm_acct.* to slurm@localhost"
    slurmdbd
    try 60 sacctmgr -n show cluster
    # the controller must find its cluster before the first node registers
    sacctmgr -i add cluster "$cluster" >/dev/null 2>&1 || true
}

cd "$root"
pivot_root . "$old"
cd /
if [ "$role" != bare ]; then
    umount -l "/$old"
    key_service
    mkdir -p /var/spool/slurm/ctld /var/spool/slurm/d
fi
case $role in
    controller)
        if [ -e /etc/slurm/slurmdbd.conf ]; then database; fi
        slurmctld
        ;;
    node) slurmd -N "$name" ;;
esac
: >/run/booted
exec tini -s -- sleep infinity
