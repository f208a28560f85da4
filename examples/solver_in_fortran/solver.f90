! Heat in a ring whose conductivity depends on its temperature, on a grid too coarse and with a conductivity too simple. While it
! marches beside a fine one, a network learns what its flux lacks: solver [RUN.YAML [EPISODES]]
module heat
  use, intrinsic :: iso_fortran_env, only: real32
  implicit none
  integer, parameter :: cells = 32, refinement = 8, fine_cells = cells * refinement, fine_steps = 64
  real(real32), parameter :: width = 1.0 / cells, fine_width = width / refinement, time_step = 2e-3, simple_conductivity = 0.02

contains

  ! A few waves: another start for each episode of each rank.
  subroutine start(episode, temperature)
    integer, intent(in) :: episode
    real(real32), intent(out) :: temperature(fine_cells)
    real(real32), parameter :: pi = acos(-1.0)
    integer :: cell, wave
    temperature = 0
    do wave = 1, 3
      do cell = 1, fine_cells
        temperature(cell) = temperature(cell) + sin(1.7 * episode * wave + 0.3 * wave) / wave &
                            * sin(2 * pi * wave * (cell - 0.5) * fine_width + 2.3 * episode)
      end do
    end do
  end subroutine

  ! One step of the coarse grid, in many of the fine one. `flux`: its mean at the right face of each coarse cell.
  subroutine march_fine(temperature, flux)
    real(real32), intent(inout) :: temperature(fine_cells)
    real(real32), intent(out) :: flux(cells)
    real(real32) :: right(fine_cells), fine_flux(fine_cells)
    integer :: step
    flux = 0
    do step = 1, fine_steps
      right = cshift(temperature, 1)
      fine_flux = -(0.01 + 0.04 * ((temperature + right) / 2)**2) * (right - temperature) / fine_width
      temperature = temperature - time_step / fine_steps * (fine_flux - cshift(fine_flux, -1)) / fine_width
      flux = flux + fine_flux(refinement::refinement) / fine_steps
    end do
  end subroutine

  function coarse(temperature) result(means)
    real(real32), intent(in) :: temperature(fine_cells)
    real(real32) :: means(cells)
    means = sum(reshape(temperature, [refinement, cells]), 1) / refinement
  end function

  function simple_flux(temperature) result(flux)
    real(real32), intent(in) :: temperature(cells)
    real(real32) :: flux(cells)
    flux = -simple_conductivity * (cshift(temperature, 1) - temperature) / width
  end function
end module heat

program solver
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use heat
  use levin
  implicit none
  integer, parameter :: steps = 50
  type(levin_session) :: session
  type(levin_batch) :: batch, prediction
  real(real32), target :: sides(2, cells), missing(1, cells) ! what the batch and the network see: no copy is made
  real(real32) :: error_simple, error_closed
  integer :: episode, episodes
  character(256) :: argument

  argument = "solver.yaml"
  if (command_argument_count() > 0) call get_command_argument(1, argument)
  call session%open(argument)
  episodes = 60
  if (command_argument_count() > 1) then
    call get_command_argument(2, argument)
    read (argument, *) episodes
  end if
  call batch%set("sides", sides)
  call batch%set("flux", missing)

  call session%begin()
  do episode = 1, episodes
    call learn(episode * session%world_size() + session%rank())
    if (session%should_stop()) exit
  end do
  call compare(-1, error_simple, error_closed)
  if (session%rank() == 0) then
    print "(a, es9.2, a, es9.2)", "difference to the fine grid: simple ", error_simple, ", with the network ", error_closed
  end if
  call session%save("closure.ckpt")
  call session%end()
  call session%close()

contains

  subroutine see(temperature)
    real(real32), intent(in) :: temperature(cells)
    sides(1, :) = temperature
    sides(2, :) = cshift(temperature, 1)
  end subroutine

  ! The network learns in each step from what the fine grid has just done.
  subroutine learn(number)
    integer, intent(in) :: number
    real(real32) :: fine(fine_cells), flux(cells), before(cells)
    real(real64) :: loss
    integer :: step
    call start(number, fine)
    do step = 1, steps
      before = coarse(fine)
      call march_fine(fine, flux)
      call see(before)
      missing(1, :) = flux - simple_flux(before)
      call session%step(batch, loss)
    end do
    if (session%rank() == 0 .and. mod(episode, 10) == 0) print "(a, i4, a, es9.2)", "episode", episode, "  loss", loss
  end subroutine

  ! The coarse grid alone, without and with the network, from a start that it has not seen.
  subroutine compare(number, error_simple, error_closed)
    integer, intent(in) :: number
    real(real32), intent(out) :: error_simple, error_closed
    real(real32) :: fine(fine_cells), flux(cells), simple(cells), closed(cells)
    integer :: step
    call start(number, fine)
    simple = coarse(fine)
    closed = simple
    do step = 1, steps
      call march_fine(fine, flux)
      call advance(simple, simple_flux(simple))
      call see(closed)
      call session%predict(batch, prediction)
      call prediction%get("flux", missing)
      call advance(closed, simple_flux(closed) + missing(1, :))
    end do
    error_simple = sqrt(sum((simple - coarse(fine))**2) / cells)
    error_closed = sqrt(sum((closed - coarse(fine))**2) / cells)
  end subroutine

  subroutine advance(temperature, flux)
    real(real32), intent(inout) :: temperature(cells)
    real(real32), intent(in) :: flux(cells)
    temperature = temperature - time_step * (flux - cshift(flux, -1)) / width
  end subroutine
end program solver
